//! Two servers with TLS and tokens behind Debian's nginx, with the settings of `docs/guides/run-a-server.md`.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::tls::{self, Ca, SERVER_NAME};
use crate::house::{Done, House, Running, until};
use crate::reader::{free_port, in_text, root};
use lockhouse::{ConnectOptions, Lockhouse};
use lockhouse_testkit::place;
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

const PROGRAM: &str = "/usr/sbin/nginx";
const GUIDE: &str = "docs/guides/run-a-server.md";
const WAITERS: usize = 4;

/// P9.
#[test]
fn clients_behind_nginx_notice_nothing_of_a_killed_server() {
    if !is_installed() {
        return;
    }
    let site = Site::on(House::on_a_store());
    let waiting = || site.waiting("held");
    let mut holder = site.run(&["-s", "held", "--ttl", "3s"], "echo up; cat");
    assert_eq!(holder.line(), "up");
    let served = site.house.path("served");
    let waiters: Vec<Running> = (0..WAITERS)
        .map(|waiter| {
            let script = format!("echo {waiter} >> {}", served.display());
            let running = site.run(&["-s", "held"], &script);
            until("it waits", || waiting() == waiter + 1);
            running
        })
        .collect();

    // A call waits for 20 s, and its client gives it up 10 s later. If nginx sent a call of this age again as it
    // was, its answer would come too late.
    thread::sleep(Duration::from_secs(11));
    // nginx gives each server every second connection, so some of the waiters have to move.
    site.servers[0].signal(Signal::SIGKILL);
    thread::sleep(Duration::from_secs(20));
    holder.close_stdin();
    for running in [holder].into_iter().chain(waiters) {
        let Done { code, stderr, .. } = running.end();
        assert_eq!((code, &*stderr), (0, ""));
    }
    let served = fs::read_to_string(served).unwrap();
    let mut served: Vec<_> = served.lines().collect();
    served.sort_unstable();
    assert_eq!(served, ["0", "1", "2", "3"]);
}

/// P1, P9. Each server is stopped and started again, twice, while callers hold, wait, acquire and release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_upgrade_behind_nginx_loses_no_hold_and_fails_no_call() {
    if !is_installed() {
        return;
    }
    let Some(place) = place::mysql().await else {
        return;
    };
    let house = House::at(place.url());
    house.text(&["migrate"]);
    let mut site = Site::on(house);
    let client = site.client().await;
    let holder = client.request().permits("held", 1);
    let holder = holder.ttl(Duration::from_secs(6)).acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for waiter in 0..WAITERS {
        let (client, served) = (site.client().await, Arc::clone(&served));
        waiters.push(tokio::spawn(async move {
            let permit = client.semaphore("held").acquire().await.unwrap();
            served.lock().unwrap().push(waiter);
            permit.release().await.unwrap();
        }));
        until("it waits", || site.waiting("held") == waiter + 1);
    }
    let load = Load::begin(&site).await;

    for _ in 0..2 {
        for server in 0..2 {
            load.goes_on();
            site.restart(server);
        }
    }
    load.goes_on();

    load.end().await;
    if holder.is_lost() {
        panic!("{}", holder.lost().await);
    }
    assert!(holder.release().await.unwrap().now);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    served.lock().unwrap().sort_unstable();
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3]);
    site.house.text(&["verify"]);
}

/// Two servers on one store, and nginx before them. `held` has one permit, `busy` two.
struct Site {
    house: House,
    servers: [Running; 2],
    ports: [u16; 2],
    nginx: Nginx,
    token: String,
}

impl Site {
    fn on(house: House) -> Self {
        Ca::new().issue(&house, "ca.pem");
        house.text(&["create", "held", "1"]);
        house.text(&["create", "busy", "2"]);
        let token = house.text(&["token", "create", "ci", "--grant", "hold:*"]);
        let ports = [(); 2].map(|()| free_port());
        let servers = ports.map(|port| serve(&house, port));
        let nginx = Nginx::before(&house, ports);
        Self {
            house,
            servers,
            ports,
            nginx,
            token: token.trim().to_owned(),
        }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.nginx.port)
    }

    /// How many callers wait, by the store.
    fn waiting(&self, semaphore: &str) -> usize {
        let waiting = self.house.json(&["show", semaphore])["waiting"].as_u64();
        usize::try_from(waiting.unwrap()).unwrap()
    }

    /// A script under `lockhouse run`, through nginx.
    fn run(&self, options: &[&str], script: &str) -> Running {
        let arguments = [&["run"], options, &["--", "sh", "-c", script]].concat();
        let mut command = self.house.command(&arguments);
        command
            .env("LOCKHOUSE_URL", self.url())
            .env("LOCKHOUSE_CA_FILE", self.house.path("ca.pem"))
            .env("LOCKHOUSE_TOKEN", &self.token);
        Running::new(command)
    }

    async fn client(&self) -> Lockhouse {
        let options = ConnectOptions::new()
            .ca_file(self.house.path("ca.pem"))
            .token(self.token.parse().unwrap());
        Lockhouse::connect_with(self.url(), options).await.unwrap()
    }

    /// Stops a server in order, and starts another in its place.
    fn restart(&mut self, server: usize) {
        self.servers[server].signal(Signal::SIGTERM);
        until("it takes no more connections", || {
            TcpStream::connect(("127.0.0.1", self.ports[server])).is_err()
        });
        let new = serve(&self.house, self.ports[server]);
        let old = std::mem::replace(&mut self.servers[server], new);
        let done = old.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
}

fn serve(house: &House, port: u16) -> Running {
    tls::serve(house, &format!("0.0.0.0:{port}"), &["--behind-proxy"]).0
}

/// Callers that acquire and release `busy` without a pause.
struct Load {
    callers: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    holding: AtomicUsize,
    released: AtomicUsize,
    ends: AtomicBool,
}

impl Load {
    async fn begin(site: &Site) -> Self {
        let shared = Arc::new(Shared::default());
        let mut callers = Vec::new();
        for _ in 0..4 {
            callers.push(tokio::spawn(call(site.client().await, Arc::clone(&shared))));
        }
        Self { callers, shared }
    }

    /// Waits until there were more calls.
    fn goes_on(&self) {
        let more = self.shared.released.load(SeqCst) + 50;
        until("the load goes on", || {
            let failed = self.callers.iter().any(JoinHandle::is_finished);
            failed || self.shared.released.load(SeqCst) >= more
        });
    }

    /// Panics if any call failed.
    async fn end(self) {
        self.shared.ends.store(true, SeqCst);
        for caller in self.callers {
            caller.await.unwrap();
        }
    }
}

async fn call(client: Lockhouse, shared: Arc<Shared>) {
    while !shared.ends.load(SeqCst) {
        let permit = client.semaphore("busy").acquire().await.unwrap();
        let holding = shared.holding.fetch_add(1, SeqCst) + 1;
        assert!(holding <= 2, "P1: {holding} hold");
        tokio::time::sleep(Duration::from_millis(5)).await;
        shared.holding.fetch_sub(1, SeqCst);
        assert!(permit.release().await.unwrap().now, "the hold was lost");
        shared.released.fetch_add(1, SeqCst);
    }
}

/// Stopped when this is dropped.
struct Nginx {
    process: Child,
    port: u16,
}

impl Nginx {
    /// With the guide's settings, on a free port and with the files of `house`.
    fn before(house: &House, servers: [u16; 2]) -> Self {
        let guide = fs::read_to_string(root().join(GUIDE)).unwrap();
        let printed = in_text("nginx", &guide);
        let [settings] = &printed[..] else {
            panic!("{GUIDE} has {} blocks of nginx", printed.len());
        };
        let port = free_port();
        let path = |name: &str| house.path(name).display().to_string();
        let mut settings = settings.clone();
        for (of_the_guide, here) in [
            ("10.0.0.1:7117", &*format!("127.0.0.1:{}", servers[0])),
            ("10.0.0.2:7117", &format!("127.0.0.1:{}", servers[1])),
            ("listen 443", &format!("listen 127.0.0.1:{port}")),
            ("/etc/nginx/lockhouse.pem", &path("cert.pem")),
            ("/etc/nginx/lockhouse.key", &path("key.pem")),
            ("/etc/nginx/ca.pem", &path("ca.pem")),
            ("lockhouse.internal", SERVER_NAME),
        ] {
            assert!(settings.contains(of_the_guide), "{of_the_guide}");
            settings = settings.replace(of_the_guide, here);
        }
        let folder = house.path("nginx");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("nginx.conf"), around(&settings)).unwrap();
        let process = start(&folder);
        let nginx = Self { process, port };
        until("nginx listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(folder: &Path) -> Child {
    let mut command = Command::new(PROGRAM);
    command.arg("-p").arg(folder);
    command.args(["-e", "error.log", "-c", "nginx.conf"]);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// One process, in the foreground, with all its files in its folder.
fn around(settings: &str) -> String {
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
events {{ }}
http {{
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  {settings}
}}
"
    )
}

/// Whether nginx is there.
///
/// # Panics
/// If it is missing and `LOCKHOUSE_TEST_FULL` is set.
fn is_installed() -> bool {
    if Path::new(PROGRAM).exists() {
        return true;
    }
    assert!(
        std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
        "nginx is not installed, and a full run leaves nothing out; use scripts/test"
    );
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // Past the test harness's capture, so that it is seen.
    let left_out = format!("left out: {test} (nginx is not installed)\n");
    let _ = std::io::stderr().write_all(left_out.as_bytes());
    false
}
