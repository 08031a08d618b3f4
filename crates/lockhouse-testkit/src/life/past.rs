//! The upkeep purges ended requests while clients acquire and release, and hardly slows them down (P12).
//!
//! Rounds with the purge and rounds without it alternate in one run, so that a machine which is slow for a while affects
//! both. The run compares the medians over the rounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse::{Lockhouse, Upkeep};
use tokio::task::JoinSet;

use super::{Durations, Report, bulk, ms, say, timed};
use crate::database::Database;
use crate::place::Place;
use crate::watched::{Seen, Watched};

const SEMAPHORES: usize = 4;

const TARGET_RATIO: f64 = 2.0;
const TARGET_LONGEST: Duration = Duration::from_millis(200);

/// The most rounds of each kind. There are more than `rounds` if a slow database has purged nothing in these.
const MOST_ROUNDS: u32 = 12;

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many requests ended longer ago than they are kept.
    pub ended: u32,
    /// Clients that acquire and release, one after the other.
    pub clients: u32,
    /// How many rounds there are of each kind.
    pub rounds: u32,
    /// How long each round is.
    pub round: Duration,
    /// The most rows of a purge.
    pub batch: u32,
    /// The pause after each purge.
    pub pause: Duration,
}

/// The measurements.
#[derive(Debug)]
pub struct Outcome {
    /// The rounds without a purge.
    pub without: Vec<Durations>,
    /// The rounds with a purge.
    pub with: Vec<Durations>,
    /// How long each purge took that deleted something, waiting included.
    pub purges: Durations,
    /// The most requests that one purge deleted.
    pub most_at_once: u64,
    /// How many requests were deleted while clients worked.
    pub purged_during: u64,
    round: Duration,
}

impl Outcome {
    /// Whether the purge hardly slowed the clients down.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let median = |rounds: &[Durations], part: f64| {
            let all: Durations = rounds.iter().map(|round| round.quantile(part)).collect();
            all.quantile(0.5)
        };
        let rate = |rounds: &[Durations]| {
            let mut rates: Vec<_> = rounds.iter().map(Durations::count).collect();
            rates.sort_unstable();
            rates[rates.len() / 2] as f64 / self.round.as_secs_f64()
        };
        let (without, with) = (&self.without, &self.with);
        report.say(
            "calls a second without a purge",
            format!("{:.0}", rate(without)),
        );
        report.say("calls a second with one", format!("{:.0}", rate(with)));
        for (what, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            report.say(format!("{what} without"), ms(median(without, part)));
            report.say(format!("{what} with"), ms(median(with, part)));
        }
        let ratio = median(with, 0.99).as_secs_f64() / median(without, 0.99).as_secs_f64();
        report.aim(
            "ratio of the p99s",
            format!("{ratio:.2}"),
            "2",
            ratio <= TARGET_RATIO,
        );
        let longest = self.purges.quantile(1.0);
        report.say("purged meanwhile", self.purged_during);
        report.say("purge transactions", self.purges.count());
        report.say("their p50", ms(self.purges.quantile(0.5)));
        report.say("their p99", ms(self.purges.quantile(0.99)));
        report.aim(
            "the longest",
            ms(longest),
            "200 ms",
            longest <= TARGET_LONGEST,
        );
        report
    }
}

/// Measures purges.
///
/// # Panics
/// If a call fails, if an old request stays or a young one is purged, or if a batch is larger than the upkeep allows.
pub async fn run(place: &Place, size: Size) -> Outcome {
    let (watched, lockhouse) = Watched::open(place.url()).await;
    for i in 0..SEMAPHORES {
        lockhouse.define(name(i), size.clients).await.unwrap();
    }
    let (inserted, took) = timed(insert_past(place.url(), size.ended)).await;
    say(format_args!(
        "{inserted} requests of the past inserted in {}",
        ms(took)
    ));
    let upkeep = Upkeep {
        purge_every: Duration::from_millis(500),
        purge_batch: size.batch,
        purge_pause: size.pause,
        ..Upkeep::default()
    };

    round(&lockhouse, size).await;
    let mut outcome = Outcome {
        without: Vec::new(),
        with: Vec::new(),
        purges: Durations::default(),
        most_at_once: 0,
        purged_during: 0,
        round: size.round,
    };
    let mut purges = Vec::new();
    for i in 1..=size.rounds.max(MOST_ROUNDS) {
        if i > size.rounds && outcome.purged_during > 0 {
            break;
        }
        outcome.without.push(round(&lockhouse, size).await);
        watched.take();
        let maintaining = lockhouse.maintain(upkeep.clone()).unwrap();
        outcome.with.push(round(&lockhouse, size).await);
        drop(maintaining);
        let seen = watched.take();
        outcome.purged_during += seen.purged();
        say(format_args!(
            "round {i}: p99 {} without, {} with, {} purged, the longest batch in {}",
            ms(outcome.without[i as usize - 1].quantile(0.99)),
            ms(outcome.with[i as usize - 1].quantile(0.99)),
            seen.purged(),
            ms(seen.longest_purge()),
        ));
        purges.extend(seen.purges);
    }
    finish(&lockhouse, place.url(), upkeep).await;
    let Seen { purges: last, .. } = watched.take();
    outcome.most_at_once = purges
        .iter()
        .chain(&last)
        .map(|(rows, _)| *rows)
        .max()
        .unwrap();
    let busy = purges.into_iter().filter(|(rows, _)| *rows > 0);
    outcome.purges = busy.map(|(_, took)| took).collect();
    outcome
}

/// Purges the remaining old requests, and checks that all old requests are gone, and no others.
async fn finish(lockhouse: &Lockhouse, url: &str, upkeep: Upkeep) {
    let mut database = Database::open(url).await;
    let young = "SELECT COUNT(*) FROM lockhouse_permit_request \
        WHERE external_id NOT LIKE 'past-%'";
    let young_before = database.number(young).await;
    let upkeep = Upkeep {
        purge_pause: Duration::ZERO,
        ..upkeep
    };
    let of_the_past = "SELECT COUNT(*) FROM lockhouse_permit_request \
        WHERE external_id LIKE 'past-%'";
    // A purge that was dropped runs to its end. Sweeps skip the rows that it has locked, so another sweep has to delete
    // the rest.
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    while database.number(of_the_past).await > 0 {
        assert!(
            tokio::time::Instant::now() < until,
            "the past is not purged"
        );
        let (swept, took) = timed(lockhouse.sweep(&upkeep)).await;
        say(format_args!(
            "the other {} purged in {}",
            swept.unwrap().purged,
            ms(took)
        ));
    }
    assert_eq!(database.number(young).await, young_before);
    let orphans = "SELECT COUNT(*) FROM lockhouse_permit p WHERE NOT EXISTS \
        (SELECT 1 FROM lockhouse_permit_request r WHERE r.id = p.permit_request_id)";
    assert_eq!(database.number(orphans).await, 0);
    assert_eq!(lockhouse.verify().await.unwrap(), []);
}

fn name(semaphore: usize) -> String {
    format!("lock-{semaphore}")
}

/// Each client acquires and releases, one call after the other. Returns how long each call took.
async fn round(lockhouse: &Lockhouse, size: Size) -> Durations {
    let until = Instant::now() + size.round;
    let mut clients = JoinSet::new();
    for client in 0..size.clients {
        let semaphore = lockhouse.semaphore(name(client as usize % SEMAPHORES));
        let semaphore = Arc::new(semaphore);
        clients.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let (permit, duration) = timed(semaphore.try_acquire()).await;
                took.push(duration);
                let (released, duration) = timed(permit.unwrap().release()).await;
                assert!(released.unwrap().now);
                took.push(duration);
            }
            took
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// Inserts requests that ended eight days ago and before.
async fn insert_past(url: &str, count: u32) -> u32 {
    let mut database = Database::open(url).await;
    let ended_at = database.seconds_ago(&format!("8 * 86400 + {count} - n"));
    let requests = format!(
        "lockhouse_permit_request (id, external_id, owner, state, end_reason, \
         ttl_ms, expires_at, created_at, released_at, only_semaphore_id) \
         SELECT n + 1, {}, NULL, 'RELEASED', 'released', 30000, {ended_at}, {ended_at}, {ended_at}, {}",
        bulk::scattered("past"),
        bulk::id_of("lock-0")
    );
    bulk::insert(
        &mut database,
        count,
        &[requests, bulk::permits_of("lock-0")],
    )
    .await;
    // The inserted requests had fences below those of later grants.
    let fence = format!("UPDATE lockhouse_semaphore SET fence = {count} WHERE name = 'lock-0'");
    database.run(&fence).await;
    count
}
