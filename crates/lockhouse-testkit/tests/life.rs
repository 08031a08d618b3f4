//! The whole life of permits, at small sizes. `bin/life.rs` has the full sizes.

use std::path::Path;
use std::time::Duration;

use lockhouse_testkit::life::{elsewhere, held, killed, listings, past, silent};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;

on_each_store!(
    killed_holders_permits_go_to_waiters,
    a_refusal_costs_nothing_for_what_has_expired_elsewhere,
    a_refusal_costs_nothing_for_silent_owners_elsewhere,
);

on_each_store!(sql:
    a_silent_owner_loses_all_at_once,
    due_requests_are_found_among_many_held_ones,
    a_page_is_read_among_many,
    the_past_is_purged_while_clients_acquire,
);

/// The program whose processes the runs start.
const LIFE: &str = env!("CARGO_BIN_EXE_life");

/// P1, P10.
async fn killed_holders_permits_go_to_waiters(place: Place) {
    let size = killed::Size {
        holders: 20,
        holding_processes: 10,
        waiting_processes: 4,
        ttl: Duration::from_secs(5),
        well_for: Duration::from_secs(1),
    };
    let outcome = killed::run(&place, Path::new(LIFE), size).await;
    assert!(!outcome.report().missed(), "{}", outcome.report());
    place.clear().await;
}

/// P3, P10, P12.
async fn a_silent_owner_loses_all_at_once(place: Place) {
    let size = silent::Size {
        requests: 1_000,
        beats: 5,
    };
    let outcome = silent::run(&place, size).await;
    assert!(outcome.most_at_once <= 512, "{}", outcome.report());
    assert!(outcome.during.quantile(1.0) < Duration::from_secs(5));
    place.clear().await;
}

/// P12: this size shows only that a sweep finds all due requests and no others. `life held` measures how fast.
async fn due_requests_are_found_among_many_held_ones(place: Place) {
    let outcome = held::run(&place, held::Size { held: 20_000 }).await;
    println!("{}", outcome.report());
    assert_eq!((outcome.expired, outcome.stale), (10, 10));
    place.clear().await;
}

/// P12, at this size and beside other tests. `life refused` measures it beside 200,000 requests.
async fn a_refusal_costs_nothing_for_what_has_expired_elsewhere(place: Place) {
    refuse(place, 0).await;
}

/// P12.
async fn a_refusal_costs_nothing_for_silent_owners_elsewhere(place: Place) {
    refuse(place, 2_000).await;
}

async fn refuse(place: Place, owners: u32) {
    let size = elsewhere::Size {
        lapsed: 50_000,
        owners,
        refusals: 100,
    };
    let empty = place.beside().await;
    let outcome = elsewhere::run(&empty, &place, size).await;
    assert!(outcome.ratio() < 2.5, "{}", outcome.report());
    place.clear().await;
    empty.clear().await;
}

/// P12: this size shows only that the pages have all rows. `life listings` measures how fast.
async fn a_page_is_read_among_many(place: Place) {
    let size = listings::Size {
        rows: 3_000,
        calls: 5,
    };
    let outcome = listings::run(&place, size).await;
    assert_eq!(outcome.all.0, 4, "{}", outcome.report());
    place.clear().await;
}

/// P12: this size shows only that the purge is correct. `life past` measures how fast.
async fn the_past_is_purged_while_clients_acquire(place: Place) {
    let size = past::Size {
        ended: 20_000,
        clients: 16,
        rounds: 1,
        round: Duration::from_secs(1),
        batch: 800,
        pause: Duration::from_millis(25),
    };
    let outcome = past::run(&place, size).await;
    println!("{}", outcome.report());
    assert!(outcome.purged_during > 0);
    assert!(outcome.most_at_once <= 800, "{}", outcome.report());
    assert!(outcome.purges.quantile(1.0) < Duration::from_secs(5));
    place.clear().await;
}
