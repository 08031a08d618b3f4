//! All processes of a run, and the proxies between them.
//!
//! ```text
//! client, embedded ─▶ proxy ────────────────────────────▶ database
//! client, by HTTP  ─▶ proxy of HTTP ─▶ server ─▶ proxy ─▶ database
//! ```
//!
//! On a cluster there is no proxy to the database, and each node has a server. Each client by HTTP uses one server, and now
//! and then asks another, so nodes answer for each other's grants (P5, P9).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockhouse_lab::clock::Clock;

use super::client::{self, Says};
use super::clock::Clocks;
use super::cluster::{Cluster, NODES};
use super::console::Console;
use super::database::Server;
use super::files::Files;
use super::process::Process;
use super::proxy::Proxy;
use super::segment::Segment;
use super::size::Size;
use crate::redis::is_redis;
use crate::statement::is_postgres;

/// The number of servers, unless each node of a cluster has one. There are as many clients by HTTP.
const SERVERS: usize = 2;

/// The number of clients with their own engine.
const EMBEDDED: usize = 2;

/// A client process, and its connections.
pub(super) struct Client {
    pub(super) number: u32,
    pub(super) process: Process,
    /// The proxy to the database, or to its server. `None` for an SQLite file.
    pub(super) proxy: Option<Proxy>,
    pub(super) clock: Arc<Clock>,
    /// The files of SQLite.
    pub(super) files: Option<Arc<Files>>,
    /// The URL of its server, and then those of servers that it asks now and then.
    urls: Vec<String>,
}

/// A server process.
pub(super) struct Served {
    pub(super) process: Process,
    /// The address on which it listens.
    pub(super) address: String,
    /// The proxy to the database. `None` for an SQLite file.
    pub(super) proxy: Option<Proxy>,
    pub(super) clock: Arc<Clock>,
    /// The files of SQLite.
    pub(super) files: Option<Arc<Files>>,
    url: String,
}

/// The processes of a run.
pub(super) struct Crew {
    pub(super) clients: Vec<Client>,
    pub(super) servers: Vec<Served>,
    store: StoreUnderTest,
    /// The clock of the database, under which it was started.
    pub(super) clock: Arc<Clock>,
    /// The URL of the database, past every proxy.
    pub(super) direct_url: String,
    clocks: Clocks,
    program: PathBuf,
    folder: PathBuf,
    seed: u64,
    tasks: u32,
    rest: Duration,
    /// The prefix of the store's URLs, if it is broken on purpose.
    broken: &'static str,
    born: u32,
}

impl Crew {
    /// Starts the servers, without clients.
    pub(super) async fn start(
        program: &Path,
        size: &Size,
        store: StoreUnderTest,
        (clocks, clock): (Clocks, Arc<Clock>),
    ) -> Self {
        let (direct_url, servers) = match &store {
            StoreUnderTest::File(url) => (url.clone(), SERVERS),
            StoreUnderTest::Server(server) => (server.url(None), SERVERS),
            StoreUnderTest::Cluster(nodes) => (nodes.url(0), NODES),
        };
        let mut crew = Self {
            clients: Vec::new(),
            servers: Vec::new(),
            store,
            clock,
            clocks,
            direct_url,
            program: program.to_owned(),
            folder: size.folder.clone(),
            seed: size.seed,
            tasks: size.tasks,
            rest: size.rest,
            broken: size.broken(),
            born: 0,
        };
        for nth in 0..servers {
            let (url, proxy) = crew.way_to_database(nth).await;
            let clock = crew.clock_of_its_own();
            let files = crew.files_of_its_own();
            let process = crew.process(&["serve", &url], Some(&*clock), files.as_deref());
            crew.servers.push(Served {
                process,
                address: String::new(),
                proxy,
                clock,
                files,
                url,
            });
        }
        crew.find_servers().await;
        crew
    }

    /// Starts the clients, in `segment`.
    pub(super) async fn start_clients(&mut self, segment: Segment) {
        let mut ways = Vec::new();
        for nth in 0..EMBEDDED {
            ways.push(self.way_to_database(nth).await);
        }
        for server in &self.servers {
            let proxy = Proxy::before_http(&server.address).await;
            let url = format!("http://127.0.0.1:{}", proxy.port());
            ways.push((url, Some(proxy)));
        }
        let all: Vec<_> = ways.iter().map(|(url, _)| url.clone()).collect();
        for (nth, (url, proxy)) in ways.into_iter().enumerate() {
            let mut urls = vec![url];
            if self.cluster().is_some() && nth >= EMBEDDED {
                let of_servers = all[EMBEDDED..].iter();
                let others = of_servers.filter(|other| **other != all[nth]);
                urls.extend(others.cloned());
            }
            let clock = self.clock_of_its_own();
            let files = self.files_of_its_own().filter(|_| nth < EMBEDDED);
            self.born += 1;
            let (number, process) = self.bear(&urls, &clock, files.as_deref(), segment);
            self.clients.push(Client {
                number,
                process,
                proxy,
                clock,
                files,
                urls,
            });
        }
    }

    /// Starts the nth server again. [`replace_dead`](Self::replace_dead) reads its new address.
    pub(super) fn start_server(&mut self, nth: usize) {
        let Served {
            url, clock, files, ..
        } = &self.servers[nth];
        let process = self.process(&["serve", url], Some(&**clock), files.as_deref());
        self.servers[nth].process = process;
        self.servers[nth].address.clear();
    }

    /// Replaces killed processes, clients by new ones. Returns the numbers of the dead clients.
    pub(super) async fn replace_dead(&mut self, segment: Segment) -> Vec<u32> {
        for nth in 0..self.servers.len() {
            if self.servers[nth].process.ended().is_some() {
                self.start_server(nth);
            }
        }
        let mut dead = Vec::new();
        for nth in 0..self.clients.len() {
            if self.clients[nth].process.ended().is_some() {
                self.born += 1;
                let Client {
                    urls, clock, files, ..
                } = &self.clients[nth];
                let (number, process) = self.bear(urls, clock, files.as_deref(), segment);
                dead.push(std::mem::replace(&mut self.clients[nth].number, number));
                self.clients[nth].process = process;
            }
        }
        self.find_servers().await;
        dead
    }

    /// The proxies to the database, and then the proxies to servers.
    pub(super) fn proxies(&self) -> Vec<&Proxy> {
        let clients = self
            .clients
            .iter()
            .filter_map(|client| client.proxy.as_ref());
        let clients: Vec<_> = clients.collect();
        let servers = self
            .servers
            .iter()
            .filter_map(|server| server.proxy.as_ref());
        servers.chain(clients).collect()
    }

    /// How often the end of a fault had to start the database.
    pub(super) fn starts_at_heal(&self) -> u64 {
        match &self.store {
            StoreUnderTest::File(_) => 0,
            StoreUnderTest::Server(server) => server.starts_at_heal,
            StoreUnderTest::Cluster(nodes) => nodes.starts_at_heal,
        }
    }

    /// Whether the store is an SQLite file.
    pub(super) fn is_on_a_file(&self) -> bool {
        matches!(self.store, StoreUnderTest::File(_))
    }

    /// The database's server, if it has one.
    pub(super) fn database(&self) -> Option<&Server> {
        match &self.store {
            StoreUnderTest::Server(server) => Some(server),
            _ => None,
        }
    }

    pub(super) fn database_mut(&mut self) -> Option<&mut Server> {
        match &mut self.store {
            StoreUnderTest::Server(server) => Some(server),
            _ => None,
        }
    }

    /// The cluster, if the database is one.
    pub(super) fn cluster(&self) -> Option<&Cluster> {
        match &self.store {
            StoreUnderTest::Cluster(nodes) => Some(nodes),
            _ => None,
        }
    }

    pub(super) fn cluster_mut(&mut self) -> Option<&mut Cluster> {
        match &mut self.store {
            StoreUnderTest::Cluster(nodes) => Some(nodes),
            _ => None,
        }
    }

    /// The URL of the database, for its administrator.
    pub(super) fn admin_url(&self) -> String {
        match self.database() {
            Some(database) => database.admin_url(),
            None => self.direct_url.clone(),
        }
    }

    /// The clients with their own engine.
    pub(super) fn embedded(&self) -> &[Client] {
        &self.clients[..EMBEDDED]
    }

    /// The clients by HTTP.
    pub(super) fn remote(&self) -> &[Client] {
        &self.clients[EMBEDDED..]
    }

    /// Starts a process that obstructs all others.
    pub(super) fn nuisance(&self, part: &str, url: &str) -> Process {
        self.process(&[part, url], None, None)
    }

    /// Whether the clock of the database is `hours` off.
    pub(super) async fn clock_is_off_by(&self, hours: i64) -> bool {
        let Some(said) = self.database_time().await else {
            return false;
        };
        let truly = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let off = said - truly.as_secs_f64();
        (off / 3_600.0 - hours as f64).abs() < 0.1
    }

    /// The time by the database, in seconds since 1970.
    async fn database_time(&self) -> Option<f64> {
        let text = match self.database() {
            Some(database) => {
                let mut sql = Console::connect(&database.admin_url()).await.ok()?;
                sql.text(time_query(&self.direct_url)).await.ok()?
            }
            // A process under the clock prints the time.
            None => {
                let mut process = self.process(&["time"], Some(&*self.clock), None);
                process.first_line().await
            }
        };
        text.parse().ok()
    }

    /// Whether the database refuses the connection of an ordinary user.
    pub(super) async fn has_no_connection_left(&self) -> bool {
        let refused = Console::connect(&self.direct_url).await.err();
        let words = [
            "Too many connections",
            "too many clients",
            "slots",
            "max number of clients",
        ];
        refused.is_some_and(|error| words.iter().any(|words| error.contains(words)))
    }

    /// Starts a client.
    fn bear(
        &self,
        urls: &[String],
        clock: &Clock,
        files: Option<&Files>,
        segment: Segment,
    ) -> (u32, Process) {
        let number = client::number(self.born, !urls[0].starts_with("http"));
        let seed = (self.seed ^ u64::from(number) << 16).to_string();
        let (number_text, tasks) = (number.to_string(), self.tasks.to_string());
        let rest = self.rest.as_millis().to_string();
        let (folder, segment) = (self.folder.to_str().unwrap(), segment.0.to_string());
        let mut arguments = vec![
            "client",
            folder,
            &number_text,
            &tasks,
            &rest,
            &seed,
            &segment,
        ];
        arguments.extend(urls.iter().map(String::as_str));
        (number, self.process(&arguments, Some(clock), files))
    }

    fn process(&self, arguments: &[&str], clock: Option<&Clock>, files: Option<&Files>) -> Process {
        let clock = clock.map(Clock::environment);
        let files = files.map(Files::environment);
        let environment = clock.into_iter().chain(files).flatten();
        let log = self.folder.join("log");
        Process::start(&self.program, arguments, environment, &log)
    }

    /// The files of SQLite, of every process that opens them.
    pub(super) fn files(&self) -> impl Iterator<Item = &Files> {
        let clients = self.clients.iter().map(|client| &client.files);
        let servers = self.servers.iter().map(|server| &server.files);
        servers.chain(clients).filter_map(Option::as_deref)
    }

    /// The files of SQLite, for a process that opens them.
    fn files_of_its_own(&self) -> Option<Arc<Files>> {
        let file = self.direct_url.strip_prefix("sqlite:")?;
        let file = file.split('?').next()?;
        Some(Arc::new(self.clocks.files(PathBuf::from(file))))
    }

    /// The clock of a process. With SQLite all processes share one, as their clock is the store's.
    fn clock_of_its_own(&self) -> Arc<Clock> {
        match self.database() {
            Some(_) => self.clocks.clock(),
            None => Arc::clone(&self.clock),
        }
    }

    /// The URL of the database and the proxy to it, for the nth server or the nth client.
    async fn way_to_database(&self, nth: usize) -> (String, Option<Proxy>) {
        let database = match &self.store {
            StoreUnderTest::File(url) => return (self.as_tortured(url.clone()), None),
            StoreUnderTest::Cluster(nodes) => return (self.as_tortured(nodes.url(nth)), None),
            StoreUnderTest::Server(server) => server,
        };
        let proxy = Proxy::before(&database.address()).await;
        let direct = format!(":{}/", database.address().rsplit(':').next().unwrap());
        let url = self
            .direct_url
            .replace(&direct, &format!(":{}/", proxy.port()));
        (self.as_tortured(url), Some(proxy))
    }

    /// The URL that clients and servers are given for the store at `url`.
    fn as_tortured(&self, url: String) -> String {
        format!("{}{url}", self.broken)
    }

    /// Reads the addresses of new servers, and points the proxies to them.
    async fn find_servers(&mut self) {
        for server in &mut self.servers {
            if server.address.is_empty() {
                server.address = server.process.first_line().await;
            }
        }
        for (client, server) in self.clients.iter().skip(EMBEDDED).zip(&self.servers) {
            if let Some(proxy) = &client.proxy {
                proxy.point_to(&server.address);
            }
        }
    }
}

impl Client {
    /// The client's progress.
    pub(super) fn says(&self) -> Says {
        Says::read(&self.process.says()).unwrap_or_default()
    }
}

/// A query for the time now, and not for that at which the statement or its transaction began.
fn time_query(url: &str) -> &'static str {
    if is_redis(url) {
        "TIME"
    } else if is_postgres(url) {
        "SELECT extract(epoch FROM clock_timestamp())::text"
    } else {
        "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) AS CHAR)"
    }
}

/// The store under test.
pub(super) enum StoreUnderTest {
    /// The URL of an SQLite file.
    File(String),
    /// A server.
    Server(Server),
    /// A cluster of three nodes.
    Cluster(Cluster),
}
