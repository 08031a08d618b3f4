//! A sweep finds the due requests among very many held ones without a scan (P12).
//!
//! A third of the requests has a TTL that has not passed. Sessions of their owners keep another third, for longer than the
//! staleness limit. The last third is young. Some further requests have expired, and some are stale. For comparison, the
//! same run counts all rows, which costs as much as a scan.

use std::time::Duration;

use futures_util::future::try_join_all;
use lockhouse::{Lockhouse, Upkeep};
use lockhouse_core::store::{Due, FullStore, Page};

use super::{Durations, Report, bulk, ms, say, timed};
use crate::database::Database;
use crate::place::Place;

const OWNERS: u32 = 1_000;

/// One of so many requests has expired, and one of so many is stale.
const ONE_OF: u32 = 2_000;

/// How many requests one query looks for, as in the engine.
const PIECE: u32 = 500;

/// The most that a look may take, as a part of the scan's time.
const TARGET: f64 = 0.1;

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many requests are held.
    pub held: u32,
}

/// The measurements.
#[derive(Debug)]
pub struct Outcome {
    /// How many had expired.
    pub expired: u64,
    /// How many were stale.
    pub stale: u64,
    /// How long it took to find 500 expired requests.
    pub look: Duration,
    /// How long the sweep took that ended expired and stale requests.
    pub sweep: Duration,
    /// How long the next sweep took, which found nothing due.
    pub idle: Duration,
    /// How long it then took to find that no request has expired.
    pub idle_look: Duration,
    /// How long each look took at requests that sessions keep.
    pub stale_looks: Durations,
    /// How long it took to count all rows.
    pub scan: Duration,
}

impl Outcome {
    /// Whether looks are no scans.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        report.say("a count of all rows", ms(self.scan));
        let looks = [
            ("a look that finds nothing expired", self.idle_look),
            (
                "a look at 500 that sessions keep, p50",
                self.stale_looks.quantile(0.5),
            ),
        ];
        for (what, look) in looks {
            let part = look.as_secs_f64() / self.scan.as_secs_f64();
            report.aim(what, ms(look), "a tenth", part <= TARGET);
        }
        report.say("the longest of these", ms(self.stale_looks.quantile(1.0)));
        report.say("how many they were", self.stale_looks.count());
        report.say("a look that finds 500 expired", ms(self.look));
        let ended = self.expired + self.stale;
        report.say(format!("a sweep that ends {ended}"), ms(self.sweep));
        report.say("a sweep that ends none", ms(self.idle));
        report
    }
}

/// Measures sweeps.
///
/// # Panics
/// If a sweep ends a request that is not due, or leaves one that is.
pub async fn run(place: &Place, size: Size) -> Outcome {
    let lockhouse = place.client().await;
    lockhouse.define("all", size.held).await.unwrap();
    let beats =
        (0..OWNERS).map(|i| lockhouse.heartbeat(format!("w-{i}"), Upkeep::default().stale_after));
    try_join_all(beats).await.unwrap();
    let (due, took) = timed(hold(place.url(), size.held)).await;
    say(format_args!(
        "{} requests held since {}",
        size.held,
        ms(took)
    ));

    let store = lockhouse_stores::open(place.url()).unwrap();
    let lapsed = Due::Lapsed { on: None };
    let (found, look) = timed(store.due(lapsed, PIECE)).await;
    assert_eq!(found.unwrap().len() as u64, due.min(PIECE.into()));
    let (swept, sweep) = timed(lockhouse.sweep(&Upkeep::default())).await;
    let swept = swept.unwrap();
    assert_eq!((swept.lapsed, swept.stale), (due, due));

    let (found, idle_look) = timed(store.due(lapsed, PIECE)).await;
    assert!(found.unwrap().is_empty());
    let stale_looks = look_at_all(&*store).await;
    let (swept, idle) = timed(lockhouse.sweep(&Upkeep::default())).await;
    let swept = swept.unwrap();
    assert_eq!((swept.lapsed, swept.stale), (0, 0));
    let scan = check(&lockhouse, place.url(), u64::from(size.held) - 2 * due).await;
    Outcome {
        expired: due,
        stale: due,
        look,
        sweep,
        idle,
        idle_look,
        stale_looks,
        scan,
    }
}

/// Writes held requests. Returns how many have expired; as many are stale.
async fn hold(url: &str, count: u32) -> u64 {
    let mut database = Database::open(url).await;
    let kind = format!(
        "CASE WHEN n % {ONE_OF} = 0 THEN 'expired' WHEN n % {ONE_OF} = 1 THEN 'stale' \
         WHEN n % 3 = 0 THEN 'expiring' WHEN n % 3 = 1 THEN 'kept' ELSE 'young' END"
    );
    let of_kind = |values: &[(&str, &str)]| {
        let cases = values
            .iter()
            .map(|(kinds, value)| format!("WHEN {kind} IN ({kinds}) THEN {value} "));
        format!("CASE {}END", cases.collect::<String>())
    };
    let ttl = of_kind(&[("'expired', 'expiring'", "86400000")]);
    let (ago, ahead) = (
        database.seconds_ago("60"),
        database.seconds_ago("-86400 - n"),
    );
    let expires_at = of_kind(&[("'expired'", &ago), ("'expiring'", &ahead)]);
    let (old, young) = (
        database.seconds_ago(&format!("2 * 86400 + {count} - n")),
        database.seconds_ago("70"),
    );
    let created_at = of_kind(&[
        ("'stale', 'kept'", &old),
        ("'expired', 'expiring', 'young'", &young),
    ]);
    let owner = of_kind(&[("'kept'", &format!("CONCAT('w-', n % {OWNERS})"))]);
    let requests = format!(
        "lockhouse_permit_request (id, external_id, owner, state, ttl_ms, expires_at, created_at, \
         only_semaphore_id) \
         SELECT n + 1, {}, {owner}, 'ACQUIRED', {ttl}, {expires_at}, {created_at}, {}",
        bulk::scattered("held"),
        bulk::id_of("all")
    );
    bulk::insert(&mut database, count, &[requests, bulk::permits_of("all")]).await;
    let counters = format!("UPDATE lockhouse_semaphore SET in_use = {count}, fence = {count}");
    database.run(&counters).await;
    u64::from(count / ONE_OF)
}

/// Goes through all old requests that a session keeps. Returns how long each piece took.
async fn look_at_all(store: &dyn FullStore) -> Durations {
    let mut page = Page {
        after: None,
        limit: PIECE,
    };
    let mut looks = Vec::new();
    loop {
        let (look, took) = timed(store.stale(Upkeep::default().stale_after, &page)).await;
        let look = look.unwrap();
        assert!(look.requests.is_empty());
        looks.push(took);
        if look.looked_to.is_none() {
            return looks.into_iter().collect();
        }
        page.after = look.looked_to;
    }
}

/// Checks that all other requests are still held. Returns how long it took to count them.
async fn check(lockhouse: &Lockhouse, url: &str, held: u64) -> Duration {
    let mut database = Database::open(url).await;
    // No index has both the reason and the id.
    let count = "SELECT COUNT(*) FROM lockhouse_permit_request \
        WHERE end_reason IS NULL AND external_id LIKE '%-%-%'";
    let (counted, scan) = timed(database.number(count)).await;
    assert_eq!(counted as u64, held);
    assert_eq!(lockhouse.verify().await.unwrap(), []);
    let all = lockhouse.status("all").await.unwrap();
    assert_eq!(u64::from(all.semaphore.in_use), held);
    scan
}
