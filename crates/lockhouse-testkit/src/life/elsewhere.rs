//! A refusal costs the same whatever has lapsed on another semaphore and was not swept (P12).
//!
//! One semaphore is full. A caller asks for it again and again and is refused, first in an otherwise
//! empty store, then beside very many requests on another semaphore that have expired, or whose owners
//! fell silent.

use lockhouse::Lockhouse;

use super::{Durations, Report, bulk, ms, say, timed};
use crate::database::Database;
use crate::place::Place;

const TARGET_RATIO: f64 = 1.5;

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many requests have lapsed on the other semaphore.
    pub lapsed: u32,
    /// How many silent owners share them; 0 if they have expired themselves.
    pub owners: u32,
    /// How many refusals are timed in each of the two stores.
    pub refusals: u32,
}

/// The measurements.
#[derive(Debug)]
pub struct Outcome {
    /// The refusals in the empty store.
    pub empty: Durations,
    /// The refusals beside what has lapsed.
    pub crowded: Durations,
}

impl Outcome {
    /// How many times as long a refusal takes beside what has lapsed; of the faster ones, which
    /// others on the machine disturbed least.
    pub fn ratio(&self) -> f64 {
        self.crowded.quantile(0.25).as_secs_f64() / self.empty.quantile(0.25).as_secs_f64()
    }

    /// Whether refusals are flat.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        report.say(
            "a refusal in an empty store, p50",
            ms(self.empty.quantile(0.5)),
        );
        report.say(
            "beside what has lapsed, p50",
            ms(self.crowded.quantile(0.5)),
        );
        report.say(
            "beside what has lapsed, p90",
            ms(self.crowded.quantile(0.9)),
        );
        let ratio = self.ratio();
        let met = ratio <= TARGET_RATIO;
        report.aim(
            "ratio of the faster quarters",
            format!("{ratio:.2}"),
            "1.5",
            met,
        );
        report
    }
}

/// Refuses.
///
/// # Panics
/// If a caller is granted what is held, or a refusal ends what is held elsewhere and live.
pub async fn run(place: &Place, size: Size) -> Outcome {
    let lockhouse = place.client().await;
    lockhouse.define("full", 1).await.unwrap();
    lockhouse.define("elsewhere", size.lapsed).await.unwrap();
    let held = lockhouse.request_with_id("held").permits("full", 1);
    let held = held.acquire().await.unwrap();
    refusals(&lockhouse, size.refusals).await;
    let empty = refusals(&lockhouse, size.refusals).await;
    let ((), took) = timed(lapse(place.url(), size)).await;
    say(format_args!(
        "{} requests lapsed in {}",
        size.lapsed,
        ms(took)
    ));
    let crowded = refusals(&lockhouse, size.refusals).await;
    held.release().await.unwrap();
    assert_eq!(lockhouse.verify().await.unwrap(), []);
    Outcome { empty, crowded }
}

async fn refusals(lockhouse: &Lockhouse, count: u32) -> Durations {
    let full = lockhouse.semaphore("full");
    let mut took = Vec::new();
    for _ in 0..count {
        let (refused, duration) = timed(full.try_acquire()).await;
        assert!(refused.is_err(), "it was held");
        took.push(duration);
    }
    took.into_iter().collect()
}

/// As if all of them had lapsed since they were granted.
async fn lapse(url: &str, size: Size) {
    let Size { lapsed, owners, .. } = size;
    let mut database = Database::open(url).await;
    let (ago, elsewhere) = (database.seconds_ago("60"), bulk::id_of("elsewhere"));
    let ends = match owners {
        0 => format!("NULL, 'ACQUIRED', 1000, {ago}, {ago}"),
        _ => format!("CONCAT('w-', n % {owners}), 'ACQUIRED', NULL, NULL, {ago}"),
    };
    let requests = format!(
        "lockhouse_permit_request (id, external_id, owner, state, ttl_ms, expires_at, created_at, \
         only_semaphore_id) SELECT n + 2, {}, {ends}, {elsewhere}",
        bulk::scattered("lapsed")
    );
    let permits = format!(
        "lockhouse_permit (permit_request_id, semaphore_id, count, fence) \
         SELECT n + 2, {elsewhere}, 1, n + 1"
    );
    bulk::insert(&mut database, lapsed, &[requests, permits]).await;
    let sessions = format!(
        "lockhouse_owner_session (owner, ttl_ms, expires_at) SELECT CONCAT('w-', n), 1000, {ago}"
    );
    if owners > 0 {
        bulk::insert(&mut database, owners, &[sessions]).await;
    }
    let counters = format!(
        "UPDATE lockhouse_semaphore SET in_use = {lapsed}, fence = {lapsed} WHERE name = 'elsewhere'"
    );
    database.run(&counters).await;
}
