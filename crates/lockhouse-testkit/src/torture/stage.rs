//! Begins each fault, and ends it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::crew::Crew;
use super::faults::Fault;
use super::files::Trouble;
use super::plan::Staged;
use super::process::Process;
use super::proxy::{Failure, Proxy};
use crate::history::{Move, Moved, now_us};
use crate::redis::is_redis;

/// How long a fault waits for a COMMIT. In a mix there may be none.
const COMMIT_COMES: Duration = Duration::from_secs(2);

/// How long a process may take to die after it has read the order to.
const LOOKED_WITHIN: Duration = Duration::from_millis(50);

const SIGKILL: i32 = 9;

/// How long the database may take to show that a fault is on.
const SHOWS_WITHIN: Duration = Duration::from_secs(3);

/// The active faults, and the offset of the database's clock.
pub(super) struct Stage {
    pub(super) moved: Moved,
    /// The faults, each from its beginning until it was mended.
    pub(super) troubled: Vec<(u64, u64)>,
    /// When a process may have been unable to work, until all processes worked again.
    pub(super) away: Vec<(u64, u64)>,
    /// When the faults of a cluster had begun, and how long the cluster may serve no caller after that.
    pub(super) begun: Vec<(u64, Duration)>,
    /// Processes that were killed on purpose, or are known to have ended.
    pub(super) killed: Vec<u32>,
    /// The disk of the data, if it may be filled.
    disk: Option<PathBuf>,
    nuisances: Vec<Process>,
}

impl Stage {
    pub(super) fn new(ahead: i64, disk: Option<PathBuf>) -> Self {
        Self {
            moved: Moved {
                ahead,
                since: now_us(),
                ..Moved::default()
            },
            troubled: Vec::new(),
            away: Vec::new(),
            begun: Vec::new(),
            killed: Vec::new(),
            disk,
            nuisances: Vec::new(),
        }
    }

    /// Begins a fault. Returns false if it did not happen: no COMMIT came, or the database does not show the fault.
    pub(super) async fn begin(&mut self, crew: &mut Crew, staged: &Staged) -> bool {
        let fault = staged.fault;
        if fault.is_at_commit() {
            return self.at_commit(crew, staged).await;
        }
        if fault.is_of_a_link() {
            fail_links(crew, staged);
            return true;
        }
        let client = staged.whom % crew.clients.len();
        let server = staged.whom % crew.servers.len();
        match fault {
            Fault::KillClient => self.kill(&mut crew.clients[client].process),
            Fault::KillServer => self.kill(&mut crew.servers[server].process),
            Fault::StopClient => stop(&mut crew.clients[client].process),
            Fault::StopServer => stop(&mut crew.servers[server].process),
            Fault::LostReplies => fail_http(crew, Failure::LostReplies),
            Fault::LateReplies => fail_http(crew, Failure::LateReplies),
            Fault::RepeatedRequests => fail_http(crew, Failure::RepeatedRequests),
            Fault::RepeatedReplies => fail_http(crew, Failure::RepeatedReplies),
            Fault::ClockClient => crew.clients[client].clock.set(staged.hours).unwrap(),
            Fault::ClockServer => crew.servers[server].clock.set(staged.hours).unwrap(),
            Fault::ClockDatabase => {
                self.set_clock(crew, staged.hours);
                return shows(|| crew.clock_is_off_by(staged.hours)).await;
            }
            Fault::DiskFull => self.fill_disk(),
            Fault::LockStorm => {
                self.nuisances
                    .push(crew.nuisance("storm", &crew.admin_url()));
            }
            Fault::Connections => {
                self.take_connections(crew).await;
                return shows(|| crew.has_no_connection_left()).await;
            }
            _ => of_database(crew, staged).await,
        }
        if fault == Fault::ReadOnly && crew.is_on_a_file() {
            // A file that a process opened during the fault must not keep it from writing
            // afterwards.
            self.kill(&mut crew.servers[server].process);
            crew.start_server(server);
        }
        true
    }

    /// Ends all faults as an operator would: ends each one, starts the database if it is down, and does nothing else.
    pub(super) async fn mend(&mut self, crew: &mut Crew, faults: &[Staged]) {
        self.nuisances.clear();
        self.free_disk();
        for proxy in crew.proxies() {
            proxy.mend();
        }
        for Staged { fault, whom, .. } in faults {
            let client = whom % crew.clients.len();
            let server = whom % crew.servers.len();
            match fault {
                Fault::StopClient => go_on(&mut crew.clients[client].process),
                Fault::StopServer => go_on(&mut crew.servers[server].process),
                Fault::ClockClient => crew.clients[client].clock.set(0).unwrap(),
                Fault::ClockServer => crew.servers[server].clock.set(0).unwrap(),
                Fault::ClockDatabase => self.set_clock(crew, 0),
                Fault::StopDatabase => {
                    if let Some(database) = crew.database() {
                        database.go_on();
                    }
                }
                _ => {}
            }
        }
        let was_full = faults.iter().any(|staged| staged.fault == Fault::DiskFull);
        if let Some(database) = crew.database_mut() {
            database.bring_back(was_full).await;
        }
        if let Some(cluster) = crew.cluster_mut() {
            return cluster.mend().await;
        }
        if faults.iter().any(|staged| staged.fault == Fault::ReadOnly) {
            read_only(crew, false).await;
        }
    }

    fn kill(&mut self, process: &mut Process) {
        self.killed.push(process.id());
        process.kill();
    }

    async fn at_commit(&mut self, crew: &mut Crew, staged: &Staged) -> bool {
        let embedded = staged.whom % crew.embedded().len();
        let server = staged.whom % crew.servers.len();
        let is_servers = match staged.fault {
            Fault::CommitKillClient => false,
            Fault::CommitKillServer => true,
            _ => staged.whom.is_multiple_of(3),
        };
        let proxy = if is_servers {
            &crew.servers[server].proxy
        } else {
            &crew.clients[embedded].proxy
        };
        let Some(proxy) = proxy else {
            return self.at_write(crew, staged).await;
        };
        let mut catch = proxy.set_trap(staged.point);
        let Ok(Some(caught)) = timeout(COMMIT_COMES, catch.recv()).await else {
            return false;
        };
        match staged.fault {
            Fault::CommitKillClient => self.kill(&mut crew.clients[embedded].process),
            Fault::CommitKillServer => self.kill(&mut crew.servers[server].process),
            Fault::CommitKillDatabase => {
                if let Some(database) = crew.database_mut() {
                    database.kill();
                }
            }
            _ => {}
        }
        drop(caught);
        true
    }

    /// The same for a process that itself writes the COMMIT to a file.
    async fn at_write(&mut self, crew: &mut Crew, staged: &Staged) -> bool {
        let (files, process) = if staged.fault == Fault::CommitKillServer {
            let server = staged.whom % crew.servers.len();
            let server = &mut crew.servers[server];
            (server.files.clone(), &mut server.process)
        } else {
            let embedded = staged.whom % crew.embedded().len();
            let client = &mut crew.clients[embedded];
            (client.files.clone(), &mut client.process)
        };
        let Some(files) = files else { return false };
        if process.ended().is_some() {
            return false;
        }
        files.set(staged.point.into());
        let begun = Instant::now();
        while process.ended().is_none() && begun.elapsed() < COMMIT_COMES {
            sleep(Duration::from_millis(5)).await;
        }
        files.set(Trouble::Nothing);
        // A process that has just read the file acts on that.
        sleep(LOOKED_WITHIN).await;
        let has_died = process
            .ended()
            .is_some_and(|status| status.signal() == Some(SIGKILL));
        if has_died {
            self.killed.push(process.id());
        }
        has_died
    }

    fn set_clock(&mut self, crew: &Crew, hours: i64) {
        let from = now_us();
        crew.clock.set(hours).unwrap();
        let to = now_us();
        let off = hours * 3_600_000_000;
        self.moved.moves.push(Move { from, to, off });
    }

    /// Starts a process that takes connections, and closes all connections of clients and servers, so that they need new ones.
    async fn take_connections(&mut self, crew: &Crew) {
        let greedy = crew.nuisance("greedy", &crew.direct_url);
        self.nuisances.push(greedy);
        sleep(Duration::from_millis(500)).await;
        let to_database = || {
            let clients = crew
                .embedded()
                .iter()
                .filter_map(|client| client.proxy.as_ref());
            clients.chain(
                crew.servers
                    .iter()
                    .filter_map(|server| server.proxy.as_ref()),
            )
        };
        to_database().for_each(|proxy| proxy.fail(Failure::Cut));
        sleep(Duration::from_millis(100)).await;
        to_database().for_each(Proxy::mend);
    }

    fn fill_disk(&self) {
        let Some(file) = self.filler() else { return };
        let mut file = File::create(file).unwrap();
        for size in [1 << 22, 1 << 12] {
            let zeros = vec![0; size];
            while file.write_all(&zeros).is_ok() {}
        }
    }

    fn free_disk(&self) {
        if let Some(file) = self.filler() {
            let _ = fs::remove_file(file);
        }
    }

    fn filler(&self) -> Option<PathBuf> {
        self.disk.as_ref().map(|disk| disk.join("filler"))
    }
}

/// Whether `is_so` returns true soon.
async fn shows<F: Future<Output = bool>>(is_so: impl Fn() -> F) -> bool {
    let shown = async {
        while !is_so().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SHOWS_WITHIN, shown).await.is_ok()
}

async fn of_database(crew: &mut Crew, staged: &Staged) {
    if let Some(cluster) = crew.cluster_mut() {
        return cluster.begin(staged).await;
    }
    let fault = staged.fault;
    if fault == Fault::ReadOnly {
        return read_only(crew, true).await;
    }
    let Some(database) = crew.database_mut() else {
        return;
    };
    match fault {
        Fault::KillDatabase => database.kill(),
        Fault::RestartDatabase => database.stop_well().await,
        Fault::StopDatabase => database.pause(),
        other => unreachable!("{other} is not of the database"),
    }
}

/// Makes the database read-only, or writable again. PostgreSQL does that for new sessions, so the old ones are ended.
async fn read_only(crew: &Crew, on: bool) {
    let Some(database) = crew.database() else {
        let trouble = if on {
            Trouble::ReadOnly
        } else {
            Trouble::Nothing
        };
        crew.files().for_each(|files| files.set(trouble));
        return;
    };
    let mut admin = database.admin().await;
    let state = if on { "on" } else { "off" };
    if is_redis(&crew.direct_url) {
        // Redis has no replica here, and refuses writes if it needs one.
        let replicas = u8::from(on);
        let set = format!("CONFIG SET min-replicas-to-write {replicas}");
        admin.run(&set).await.unwrap();
    } else if crew.direct_url.starts_with("postgres") {
        let session = "SET default_transaction_read_only = off";
        let alter = format!("ALTER DATABASE lockhouse SET default_transaction_read_only = {state}");
        admin.run(session).await.unwrap();
        admin.run(&alter).await.unwrap();
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE usename = 'torture'";
        admin.run(others).await.unwrap();
    } else {
        admin
            .run(&format!("SET GLOBAL read_only = {state}"))
            .await
            .unwrap();
    }
}

/// Makes one of the links fail, or now and then all of them.
fn fail_links(crew: &Crew, staged: &Staged) {
    let all = crew.proxies();
    let one = staged.whom % (all.len() + 1);
    let some = match all.get(one) {
        Some(proxy) => vec![*proxy],
        None => all,
    };
    for proxy in some {
        match staged.fault {
            Fault::Cut => proxy.fail(Failure::Cut),
            Fault::OneWay => proxy.fail(Failure::OneWay(staged.direction)),
            Fault::HalfOpen => proxy.forget_connections(),
            Fault::Slow => proxy.fail(Failure::Slow),
            Fault::Garbled => proxy.fail(Failure::Garbled(staged.direction)),
            _ => proxy.fail(Failure::ClosedMidPacket(staged.direction)),
        }
    }
}

fn fail_http(crew: &Crew, failure: Failure) {
    let proxies = crew
        .remote()
        .iter()
        .filter_map(|client| client.proxy.as_ref());
    proxies.for_each(|proxy| proxy.fail(failure));
}

/// Stops a process, unless another fault of the round has killed it.
fn stop(process: &mut Process) {
    if process.ended().is_none() {
        process.stop();
    }
}

/// Continues a process, unless it was killed meanwhile.
fn go_on(process: &mut Process) {
    if process.ended().is_none() {
        process.go_on();
    }
}
