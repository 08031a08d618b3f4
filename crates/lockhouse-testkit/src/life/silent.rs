//! One owner keeps thousands of permits by one heartbeat, and falls silent (P3, P10, P12).
//!
//! Triggers in the database count the rows that a heartbeat writes. Meanwhile another caller acquires and releases on
//! another semaphore. The end of thousands of requests must hardly slow it down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Ask, Count, ExternalId, Lockhouse, Owner, SemaphoreName, Upkeep};
use tokio::task::JoinHandle;

use super::{Durations, Report, ms, say, timed};
use crate::database::Database;
use crate::place::Place;
use crate::watched::{Seen, Watched};
use crate::{audit, rows};

const OWNER: &str = "job-1";
const HELD: &str = "boats";
const OTHER: &str = "lock";

const LONG: Duration = Duration::from_secs(600);

/// The heartbeat after which the owner is silent.
const LAST_BEAT: Duration = Duration::from_secs(1);

/// How long the other caller is measured undisturbed.
const UNDISTURBED: Duration = Duration::from_secs(2);

/// The longest that a transaction of a sweep may take, and the longest that it may delay another caller.
const TARGET: Duration = Duration::from_millis(200);

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many requests the owner holds.
    pub requests: u32,
    /// How many heartbeats are counted.
    pub beats: u32,
}

/// The measurements.
#[derive(Debug)]
pub struct Outcome {
    /// How long the sweep took that freed all permits.
    pub sweep: Duration,
    /// How long each of its transactions took, waiting included.
    pub transactions: Durations,
    /// The most requests that one transaction ended.
    pub most_at_once: usize,
    /// How long the other caller's calls took undisturbed.
    pub undisturbed: Durations,
    /// How long the other caller's calls took while the sweep freed thousands of permits.
    pub during: Durations,
}

impl Outcome {
    /// Whether nothing took too long.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let aim = |report: &mut Report, what: &str, took: Duration| {
            report.aim(what, ms(took), "200 ms", took <= TARGET);
        };
        report.say("one sweep freed all in", ms(self.sweep));
        report.say("transactions", self.transactions.count());
        report.say("most requests in one", self.most_at_once);
        aim(
            &mut report,
            "longest transaction",
            self.transactions.quantile(1.0),
        );
        let (before, during) = (&self.undisturbed, &self.during);
        for (what, part) in [("p50", 0.5), ("p99", 0.99)] {
            report.say(
                format!("another caller's call, {what}, before"),
                ms(before.quantile(part)),
            );
            report.say(
                format!("another caller's call, {what}, meanwhile"),
                ms(during.quantile(part)),
            );
        }
        aim(
            &mut report,
            "another caller's longest call meanwhile",
            during.quantile(1.0),
        );
        report
    }
}

/// Measures the end of an owner that falls silent.
///
/// # Panics
/// If a heartbeat writes more than one row, if one sweep does not free all permits, or if its transactions grow with the
/// number of requests.
pub async fn run(place: &Place, size: Size) -> Outcome {
    let owner = place.client().await;
    owner.define(HELD, size.requests).await.unwrap();
    owner.define(OTHER, 1).await.unwrap();
    owner.heartbeat(OWNER, LONG).await.unwrap();
    hold(&owner, size.requests).await;
    say(format_args!("one owner holds {} requests", size.requests));

    count_writes(place.url(), &owner, size.beats).await;
    say(format_args!("{} heartbeats wrote a row each", size.beats));

    let other = place.client().await;
    let undisturbed = Other::begins(other.clone());
    tokio::time::sleep(UNDISTURBED).await;
    let undisturbed = undisturbed.ends().await;
    owner.heartbeat(OWNER, LAST_BEAT).await.unwrap();
    let (watched, sweeper) = Watched::open(place.url()).await;
    tokio::time::sleep(LAST_BEAT + Duration::from_millis(1)).await;

    let during = Other::begins(other);
    let (swept, sweep) = timed(sweeper.sweep(&Upkeep::default())).await;
    let during = during.ends().await;
    assert_eq!(swept.unwrap().lapsed, u64::from(size.requests));
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    assert!(rows.semaphores.iter().all(|row| row.in_use == 0));
    let ends = rows.permits.iter().filter(|row| row.semaphore == HELD);
    for row in ends {
        assert_eq!(row.end_reason.as_deref(), Some("owner_dead"), "{row:?}");
    }
    let Seen { batches, .. } = watched.take();
    Outcome {
        sweep,
        most_at_once: batches.iter().map(|(ended, _)| *ended).max().unwrap_or(0),
        transactions: batches.iter().map(|(_, took)| *took).collect(),
        undisturbed,
        during,
    }
}

/// Acquires `count` requests without a TTL.
async fn hold(lockhouse: &Lockhouse, count: u32) {
    let ask = |i| {
        let id = ExternalId::parse(format!("{OWNER}::{i}")).unwrap();
        let permits = [(SemaphoreName::parse(HELD).unwrap(), Count::ONE)];
        let mut ask = Ask::new(id, permits).unwrap();
        ask.owner = Some(Owner::parse(OWNER).unwrap());
        lockhouse.acquire(ask, Duration::ZERO)
    };
    let all: Vec<u32> = (0..count).collect();
    for some in all.chunks(2_000) {
        for granted in join_all(some.iter().map(ask)).await {
            granted.unwrap();
        }
    }
}

/// Checks that each heartbeat writes the session's row, and no other row of any table.
async fn count_writes(url: &str, owner: &Lockhouse, beats: u32) {
    let mut database = Database::open(url).await;
    database.count_writes().await;
    for _ in 0..beats {
        owner.heartbeat(OWNER, LONG).await.unwrap();
    }
    let written = database.written().await;
    assert_eq!(written, [("lockhouse_owner_session", i64::from(beats))]);
}

/// Another caller, which acquires and releases, one call after the other.
struct Other {
    ended: Arc<AtomicBool>,
    calls: JoinHandle<Durations>,
}

impl Other {
    fn begins(lockhouse: Lockhouse) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let calls = tokio::spawn(calls(lockhouse, Arc::clone(&ended)));
        Self { ended, calls }
    }

    /// How long each of the calls took.
    async fn ends(self) -> Durations {
        self.ended.store(true, Ordering::Relaxed);
        self.calls.await.unwrap()
    }
}

async fn calls(lockhouse: Lockhouse, ended: Arc<AtomicBool>) -> Durations {
    let mut took = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let (permit, duration) = timed(lockhouse.semaphore(OTHER).try_acquire()).await;
        took.push(duration);
        let (released, duration) = timed(permit.unwrap().release()).await;
        assert!(released.unwrap().now);
        took.push(duration);
    }
    took.into_iter().collect()
}
