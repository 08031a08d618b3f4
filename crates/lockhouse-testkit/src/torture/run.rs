//! A run from its beginning to its end.

mod segments;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockhouse::Lockhouse;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};

use super::audit::Auditor;
use super::clock::Clocks;
use super::cluster::Cluster;
use super::console::Console;
use super::crew::{Crew, StoreUnderTest};
use super::database::Server;
use super::faults::Fault;
use super::notes::Notes;
use super::part::upkeep;
use super::plan::{LONGEST_TTL_MS, Round};
use super::report::Report;
use super::segment::{STALE_AFTER, Segment};
use super::size::Size;
use super::stage::Stage;
use super::topology::Topology;
use super::verdict::Verdict;
use super::work::{self, SOON};
use crate::database::Database;
use crate::history::{Moved, now_us};
use crate::redis::{self, is_redis};
use crate::{broken, rows};

/// The stores that can be tortured, as a command line names them.
pub const STORES: [&str; 6] = ["sqlite", "mysql", "mariadb", "postgres", "redis", "valkey"];

/// How long after a change of a clock processes may be busy with the TTLs that it ended.
const CLOCK_IS_SET_US: u64 = 500_000;

/// How often rows are audited while clients work. Audits are less frequent if they would take more than a twentieth of the
/// time.
const AUDIT_EVERY: Duration = Duration::from_millis(500);

/// How long each time without faults is, at the end of a run.
const WITHOUT_FAULTS: Duration = Duration::from_secs(8);

/// Runs torture. `program` is `torture`.
///
/// # Panics
/// If processes can't be started, or a database does not come back.
pub async fn run(program: &Path, size: &Size) -> Report {
    let data = size.folder.join("data");
    fs::create_dir_all(&data).unwrap();
    let clocks = Clocks::new(&size.folder);
    let clock = clocks.clock();
    let store = match (&*size.store, Topology::named(&size.store)) {
        ("sqlite", _) => {
            StoreUnderTest::File(format!("sqlite:{}", data.join("lockhouse.db").display()))
        }
        (_, Some(topology)) => {
            StoreUnderTest::Cluster(Cluster::of(topology, &size.scripts.join("services")).await)
        }
        (store, None) => {
            StoreUnderTest::Server(Server::start(store, &size.scripts, &data, clock.clone()).await)
        }
    };
    let crew = Crew::start(program, size, store, (clocks, clock)).await;
    let mut run = Run {
        size,
        stage: Stage::new(ahead(), size.fill.then(|| data.clone())),
        report: Report::new(&size.store, version(&crew).await, size.seed),
        begun: Instant::now(),
        segment: Segment(0),
        notes: None,
        direct: broken::connect(&format!("{}{}", size.broken(), crew.direct_url))
            .await
            .unwrap(),
        auditor: Auditor::default(),
        purging: None,
        is_segment_broken: false,
        judging: None,
        answered: 0,
        crew,
    };
    run.go_through().await;
    run.report.took = run.begun.elapsed();
    run.report
}

/// How far the time of day is ahead of the monotonic clock.
fn ahead() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_micros() as i64 - now_us() as i64
}

async fn version(crew: &Crew) -> String {
    if crew.is_on_a_file() {
        return rusqlite::version().to_owned();
    }
    let query = if is_redis(&crew.direct_url) {
        "INFO server"
    } else if crew.direct_url.starts_with("postgres") {
        "SHOW server_version"
    } else {
        "SELECT VERSION()"
    };
    let mut admin = Console::connect(&crew.admin_url()).await.unwrap();
    let text = admin.text(query).await.unwrap();
    // Valkey first reports a version of Redis with which it is compatible, and then its own.
    let lines = text.lines().rev();
    let named = lines.filter_map(|line| line.split_once("_version:"));
    let mut named = named.filter(|(of, _)| ["redis", "valkey"].contains(of));
    named
        .next()
        .map_or(text.clone(), |(_, version)| version.to_owned())
}

fn held_for_ever(late: i64) -> Option<String> {
    (late > 0).then(|| format!("P10: {late} requests are held for ever"))
}

/// A segment that is being judged, and whether the run itself has found it broken.
struct Judging {
    segment: Segment,
    is_broken: bool,
    verdict: JoinHandle<Verdict>,
}

struct Run<'a> {
    size: &'a Size,
    crew: Crew,
    stage: Stage,
    report: Report,
    begun: Instant,
    segment: Segment,
    /// The notes of the run's own calls.
    notes: Option<Arc<Notes>>,
    direct: Lockhouse,
    auditor: Auditor,
    /// The task that purges judged requests. It returns how many.
    purging: Option<JoinHandle<u64>>,
    /// Whether the run itself has found the segment broken.
    is_segment_broken: bool,
    judging: Option<Judging>,
    /// The number of answered calls, in segments that are over.
    answered: u64,
}

impl Run<'_> {
    async fn go_through(&mut self) {
        self.begin_segment(Segment(1)).await;
        self.crew.start_clients(self.segment).await;
        let mut plan = self.size.plan();
        for nth in 1_usize.. {
            if self.is_over() {
                break;
            }
            let round = plan.draw();
            let missed = self.round(&round).await;
            if self.size.once {
                plan.stage_again(&missed);
            }
            if nth.is_multiple_of(self.size.rounds) {
                self.turn(Segment(self.segment.0 + 1)).await;
            }
        }
        if self.size.once {
            self.go_on_until_all_is_decided().await;
        }
        self.turn(Segment(0)).await;
        self.take_verdict().await;
        self.last_look().await;
        self.report.must_have_had_all();
        if let Some(cluster) = self.crew.cluster() {
            // A cluster without calls has the same rows at every node.
            self.report.violations.extend(cluster.findings().await);
        }
    }

    /// Goes on without faults until each check has decided something. On a busy machine commits are slow, so the checks decide
    /// too little about the order of waiters between faults.
    async fn go_on_until_all_is_decided(&mut self) {
        self.take_verdict().await;
        let is_late = |run: &Self| run.begun.elapsed() >= run.size.duration;
        while !self.report.missing().is_empty() && !is_late(self) {
            self.say(&format!(
                "there are none yet of {}",
                self.report.missing().join(", ")
            ));
            self.turn(Segment(self.segment.0 + 1)).await;
            self.take_verdict().await;
            self.end_purge().await;
            if !self.report.missing().is_empty() {
                self.say("a time without faults");
                self.audit_for(WITHOUT_FAULTS).await;
            }
        }
    }

    fn is_over(&self) -> bool {
        let is_broken = self.size.until_broken && !self.report.violations.is_empty();
        let mut faults = self.size.possible().into_iter();
        let had_all = self.size.once && faults.all(|fault| self.report.times(fault) > 0);
        is_broken || had_all || self.begun.elapsed() >= self.size.duration
    }

    /// Runs a round. Returns the faults that did not happen.
    async fn round(&mut self, round: &Round) -> Vec<Fault> {
        self.audit_for(Duration::from_millis(round.calm_ms)).await;
        self.say(&format!("{round}"));
        let faults = || round.faults.iter().map(|staged| staged.fault);
        if faults().any(|fault| fault == Fault::ClockDatabase) {
            // The database's clock decides what is old enough to purge.
            self.end_purge().await;
        }
        let (mut came, mut missed, begun) = (Vec::new(), Vec::new(), now_us());
        let allowed = match self.crew.cluster() {
            Some(cluster) => cluster.bound(&round.faults),
            None => SOON,
        };
        for staged in &round.faults {
            if self.stage.begin(&mut self.crew, staged).await {
                came.push(staged.fault);
            } else {
                self.report.missed(staged.fault);
                missed.push(staged.fault);
            }
        }
        let all_begun = now_us();
        if self.crew.cluster().is_some() {
            self.stage.begun.push((all_begun, allowed));
        }
        let lasts = Duration::from_millis(round.lasts_ms);
        let is_of_the_database = faults().any(Fault::is_of_the_database);
        if is_of_the_database {
            sleep(lasts).await;
        } else {
            self.audit_for(lasts).await;
        }
        self.look_for_the_dead();
        if self.size.mends_late {
            self.at_work_since((now_us(), allowed), round).await;
        }
        let starts = self.crew.starts_at_heal();
        let mends_from = Instant::now();
        let begins_to_mend = now_us();
        self.stage.mend(&mut self.crew, &round.faults).await;
        let mending = mends_from.elapsed().as_secs_f64();
        let starts = self.crew.starts_at_heal() - starts;
        let mended = now_us();
        self.stage.troubled.push((begun, mended));
        if is_of_the_database || starts > 0 {
            // After a kill of the database, the rows that were read last may not have been committed.
            self.auditor = Auditor::default();
        }
        self.look_for_the_dead();
        let dead = self.crew.replace_dead(self.segment).await;
        let took = self.at_work_since((mended, allowed), round).await;
        self.report.mended(&came, starts, (took, allowed));
        let at_work = mended + took.as_micros() as u64;
        self.stage
            .away
            .extend(match came.iter().all(|fault| fault.is_of_a_clock()) {
                // Processes work while a clock is off, but not in the moment after it is set.
                true => vec![
                    (begun, all_begun + CLOCK_IS_SET_US),
                    (begins_to_mend, at_work),
                ],
                false => vec![(begun, at_work)],
            });
        if let Some(cluster) = self.crew.cluster() {
            let has_restarted = cluster.settled().await;
            let settled = now_us();
            // A stopped node may be expelled only after it continues.
            self.stage.troubled.push((mended, settled));
            if has_restarted {
                self.stage.away.push((mended, settled));
            }
        }
        for client in dead {
            self.bury(client).await;
        }
        self.say(&format!(
            "mended in {mending:.1} s{}, all at work again after {:.1} s",
            if starts > 0 { " with a start" } else { "" },
            took.as_secs_f64()
        ));
        missed
    }

    /// Returns how long it took until all processes worked again, and records if that was too long.
    async fn at_work_since(&mut self, since: (u64, Duration), round: &Round) -> Duration {
        let notes = self.notes.as_ref().expect("a round is of a segment");
        let (took, late) = work::at_work_since(&self.crew, (self.segment, notes), since).await;
        for late in late {
            self.broke(format!("after {round}: {late}"));
        }
        took
    }

    /// A process that ends by itself fails the run, since it aborts its users' calls.
    fn look_for_the_dead(&mut self) {
        let clients = self
            .crew
            .clients
            .iter_mut()
            .map(|client| &mut client.process);
        let servers = self
            .crew
            .servers
            .iter_mut()
            .map(|server| &mut server.process);
        let mut ended = Vec::new();
        for process in clients.chain(servers) {
            let Some(status) = process.ended() else {
                continue;
            };
            if !self.stage.killed.contains(&process.id()) {
                self.stage.killed.push(process.id());
                ended.push(status);
            }
        }
        let log = self.size.folder.join("log");
        for status in ended {
            self.broke(format!(
                "a process ended that nobody killed: {status}; see {log:?}"
            ));
        }
    }

    /// Audits the rows again and again, for `time`. A cluster has no snapshot of all nodes, so it is not audited.
    async fn audit_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.crew.cluster().is_none() && !self.is_segment_broken && Instant::now() < until {
            let begun = Instant::now();
            let rows = rows::read_of(&self.crew.admin_url(), &self.segment.prefix()).await;
            let moved = self.moved();
            for found in self.auditor.look(self.segment, rows, &moved) {
                self.broke(found);
            }
            self.report.audits += 1;
            let pause = AUDIT_EVERY.max(begun.elapsed() * 20);
            sleep_until(until.min(Instant::now() + pause).into()).await;
        }
        sleep_until(until.into()).await;
    }

    /// The moves of the store's clock up to now.
    fn moved(&self) -> Moved {
        Moved {
            until: now_us(),
            ..self.stage.moved.clone()
        }
    }

    /// Records a violation outside a verdict. The notes of the segment are kept.
    fn broke(&mut self, what: String) {
        self.report.violations.push(what);
        self.is_segment_broken = true;
    }

    /// P2 and P10: after all clients have ended, every request with a TTL ends, and the counts are right.
    async fn last_look(&mut self) {
        for client in &mut self.crew.clients {
            client.process.let_end();
        }
        sleep(Duration::from_millis(LONGEST_TTL_MS + 1_000)).await;
        let swept = self.direct.sweep(&upkeep()).await;
        let verified = timeout(Duration::from_secs(600), self.direct.verify()).await;
        let mut found = Vec::new();
        match (swept, verified) {
            (Ok(_), Ok(Ok(findings))) => {
                found.extend(
                    findings
                        .iter()
                        .map(|finding| format!("verify found {finding:?}")),
                );
            }
            other => found.push(format!("no sweep and verify at the end: {other:?}")),
        }
        found.extend(held_for_ever(self.overdue().await));
        self.report.violations.extend(found);
    }

    /// How many live requests should have ended more than a second ago. A request that was granted while the clock was ahead lives
    /// until that later time.
    async fn overdue(&self) -> i64 {
        if is_redis(&self.crew.direct_url) {
            return redis::overdue(&self.crew.admin_url(), STALE_AFTER).await;
        }
        let mut database = Database::open(&self.crew.admin_url()).await;
        let a_moment_ago = database.seconds_ago("1");
        let stale = database.seconds_ago(&(STALE_AFTER.as_secs() + 1).to_string());
        let overdue = format!(
            "SELECT COUNT(*) FROM lockhouse_permit_request r \
             LEFT JOIN lockhouse_owner_session s ON s.owner = r.owner AND r.expires_at IS NULL \
             WHERE r.state = 'ACQUIRED' \
             AND (r.expires_at < {a_moment_ago} OR s.expires_at < {a_moment_ago} \
             OR r.expires_at IS NULL AND s.owner IS NULL AND r.created_at < {stale})"
        );
        database.number(&overdue).await
    }

    fn say(&self, what: &str) {
        if !self.size.says {
            return;
        }
        let now = self
            .crew
            .clients
            .iter()
            .map(|client| client.says().answered);
        let answered = self.answered + now.sum::<u64>();
        let Report { violations, .. } = &self.report;
        println!(
            "{:>5.0} s  {answered:>8} ops  {:>4} faults  {} violations  {what}",
            self.begun.elapsed().as_secs_f64(),
            self.report.faults(),
            violations.len(),
        );
    }
}
