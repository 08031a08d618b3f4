//! The cost of a refusal does not depend on how many requests have lapsed on another semaphore and were not swept (P12).
//!
//! One semaphore is full. A caller asks for it repeatedly and is refused, in two stores in turn. One store is otherwise
//! empty. The other has very many requests on another semaphore that have expired, or whose owners fell silent. Other load
//! on the machine affects both stores.

use std::time::Duration;

use lockhouse::{Ask, Count, ExternalId, Lockhouse, Owner, Permit, SemaphoreName, Ttl};
use lockhouse_core::store::Batch;
use lockhouse_core::{Command, Turn};
use tokio::time::sleep;

use super::{Durations, Report, bulk, ms, say, timed};
use crate::database::Database;
use crate::place::Place;
use crate::redis;

const TARGET_RATIO: f64 = 1.5;

/// How many commands a store without SQL is given at once.
const AT_ONCE: usize = 500;

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many requests have lapsed on the other semaphore.
    pub lapsed: u32,
    /// How many silent owners the requests have. 0 if the requests have expired themselves.
    pub owners: u32,
    /// How many refusals are timed in each of the two stores.
    pub refusals: u32,
}

/// The measurements.
#[derive(Debug)]
pub struct Outcome {
    /// The refusals in the empty store.
    pub empty: Durations,
    /// The refusals in the store with lapsed requests.
    pub crowded: Durations,
}

impl Outcome {
    /// How many times as long a refusal takes beside lapsed requests. It compares the faster quarters, which other load
    /// on the machine disturbed least.
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
            "beside lapsed requests, p50",
            ms(self.crowded.quantile(0.5)),
        );
        report.say(
            "beside lapsed requests, p90",
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

/// Measures refusals.
///
/// # Panics
/// If a caller is granted a held permit, or a refusal ends a live request on the other semaphore.
pub async fn run(empty: &Place, crowded: &Place, size: Size) -> Outcome {
    let (one, other) = (Full::at(empty).await, Full::at(crowded).await);
    other
        .lockhouse
        .define("elsewhere", size.lapsed)
        .await
        .unwrap();
    refusals([&one, &other], size.refusals).await;
    let ((), took) = timed(async {
        match redis::is_redis(crowded.url()) {
            true => lapse_by_commands(crowded.url(), size).await,
            false => lapse(crowded.url(), size).await,
        }
    })
    .await;
    say(format_args!(
        "{} requests lapsed in {}",
        size.lapsed,
        ms(took)
    ));
    let [empty, crowded] = refusals([&one, &other], size.refusals).await;
    for full in [one, other] {
        full.held.release().await.unwrap();
        assert_eq!(full.lockhouse.verify().await.unwrap(), []);
    }
    Outcome { empty, crowded }
}

/// A client of a store with a semaphore that is full.
struct Full {
    lockhouse: Lockhouse,
    held: Permit,
}

impl Full {
    async fn at(place: &Place) -> Self {
        let lockhouse = place.client().await;
        lockhouse.define("full", 1).await.unwrap();
        let held = lockhouse.request_with_id("held").permits("full", 1);
        let held = held.acquire().await.unwrap();
        Self { lockhouse, held }
    }
}

/// Times `count` refusals of each client, in turn.
async fn refusals(of: [&Full; 2], count: u32) -> [Durations; 2] {
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..count {
        for (full, took) in of.iter().zip(&mut took) {
            let (refused, duration) = timed(full.lockhouse.semaphore("full").try_acquire()).await;
            assert!(refused.is_err(), "it was held");
            took.push(duration);
        }
    }
    took.map(|took| took.into_iter().collect())
}

/// Lets requests lapse by the store's own commands, and by waiting.
async fn lapse_by_commands(url: &str, size: Size) {
    let store = lockhouse_stores::open(url).unwrap();
    let soon = Ttl::from_ms(1_000).unwrap();
    let owner = |n: u32| Owner::parse(format!("w-{n}")).unwrap();
    let beats = (0..size.owners).map(|n| Command::Heartbeat {
        owner: owner(n),
        ttl: soon,
        must_exist: false,
    });
    let asks = (0..size.lapsed).map(|n| {
        let permits = [(SemaphoreName::parse("elsewhere").unwrap(), Count::ONE)];
        let id = ExternalId::parse(format!("lapsed-{n}")).unwrap();
        let mut ask = Ask::new(id, permits).unwrap();
        match size.owners {
            0 => ask.ttl = Some(soon),
            owners => ask.owner = Some(owner(n % owners)),
        }
        Command::Acquire {
            ask,
            turn: Turn::default(),
        }
    });
    // An owner whose session has lapsed acquires nothing.
    let commands: Vec<_> = asks.chain(beats).collect();
    for commands in commands.chunks(AT_ONCE) {
        let outcomes = store
            .transact(&Batch::new(commands.to_vec()))
            .await
            .unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "some were refused");
    }
    sleep(Duration::from_millis(1_100)).await;
}

/// Writes requests that have lapsed since they were granted.
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
