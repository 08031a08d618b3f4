//! P13: a row that another transaction keeps locked delays only the calls that need that row.
//!
//! An application keeps three rows locked, like one that reads them with `FOR SHARE` in a long transaction, or like a peer that
//! is frozen in a transaction. Meanwhile callers at one engine or at two ask for those rows, so that they share batches with
//! strangers. The strangers must see no error, no lost hold, and no call over 1.5 s.
//!
//! On a busy machine all calls take longer. So a call may take longer by the time that the callers took without the locks, or
//! by four plain commits, whichever is more. A call waits for up to four commits: of the batch before its own, of another
//! engine on the same row, of new semaphores, and its own.
//!
//! `LOCKHOUSE_ISOLATION_MS` is the time for which the rows are locked (6 s).

#![allow(clippy::unwrap_used)]

mod callers;
mod gaps;
mod in_turn;
mod plain;
mod rows;

use std::env;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::Lockhouse;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::sleep;

use callers::call_for;
use gaps::calls_in_locked_gaps_are_refused_and_succeed_once_they_are_free;
use in_turn::a_row_that_others_use_in_turn_is_served_while_another_is_locked;
use plain::longest_plain_commit;
use rows::{Rows, lock, set_up};

const LONGEST_CALL: Duration = Duration::from_millis(1_500);

/// How many commits a call may wait for, one after the other.
const COMMITS: u32 = 4;

on_each_store! { row locks:
    locked_requests_delay_only_their_own_calls_at_one_engine,
    locked_requests_delay_only_their_own_calls_at_two_engines,
    locked_semaphores_delay_only_their_own_calls_at_one_engine,
    locked_semaphores_delay_only_their_own_calls_at_two_engines,
    locked_sessions_delay_only_their_own_calls_at_two_engines,
    locked_keys_delay_only_their_own_calls_at_two_engines,
    locked_templates_delay_nobody_at_one_engine,
    locked_templates_delay_nobody_at_two_engines,
    locked_gaps_delay_only_asks_by_ids_in_them_at_one_engine,
    locked_gaps_delay_only_asks_by_ids_in_them_at_two_engines,
    a_locked_gap_of_names_delays_only_creations_in_it_at_one_engine,
    a_locked_gap_of_names_delays_only_creations_in_it_at_two_engines,
    a_locked_gap_of_owners_delays_only_new_sessions_in_it_at_one_engine,
    a_locked_gap_of_owners_delays_only_new_sessions_in_it_at_two_engines,
    calls_in_locked_gaps_are_refused_and_succeed_once_they_are_free,
    a_row_that_others_use_in_turn_is_served_while_another_is_locked,
}

async fn locked_requests_delay_only_their_own_calls_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Requests).await;
}

async fn locked_requests_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Requests).await;
}

async fn locked_semaphores_delay_only_their_own_calls_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Semaphores).await;
}

async fn locked_semaphores_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Semaphores).await;
}

async fn locked_sessions_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Sessions).await;
}

async fn locked_keys_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Keys).await;
}

async fn locked_templates_delay_nobody_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Templates).await;
}

async fn locked_templates_delay_nobody_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Templates).await;
}

async fn locked_gaps_delay_only_asks_by_ids_in_them_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Gaps).await;
}

async fn locked_gaps_delay_only_asks_by_ids_in_them_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Gaps).await;
}

async fn a_locked_gap_of_names_delays_only_creations_in_it_at_one_engine(place: Place) {
    isolated(place, 1, Rows::NameGap).await;
}

async fn a_locked_gap_of_names_delays_only_creations_in_it_at_two_engines(place: Place) {
    isolated(place, 2, Rows::NameGap).await;
}

async fn a_locked_gap_of_owners_delays_only_new_sessions_in_it_at_one_engine(place: Place) {
    isolated(place, 1, Rows::OwnerGap).await;
}

async fn a_locked_gap_of_owners_delays_only_new_sessions_in_it_at_two_engines(place: Place) {
    isolated(place, 2, Rows::OwnerGap).await;
}

async fn isolated(place: Place, engines: u32, rows: Rows) {
    let engines: Vec<_> = join_all((0..engines).map(|_| place.client())).await;
    set_up(&engines[0]).await;
    // The holds of strangers, which renew themselves.
    let holds = hold(&engines).await;
    let before = call_for(&engines, "before", sleep(Duration::from_secs(1))).await;
    let mut locks = Vec::new();
    for number in 0..rows.many() {
        locks.push(lock(&place, rows, number).await);
    }
    let mut plain = Duration::ZERO;
    let while_locked = async {
        plain = longest_plain_commit(&place, locked_for()).await;
        for lock in &mut locks {
            lock.run("ROLLBACK").await;
        }
    };
    let calls = call_for(&engines, "locked", while_locked).await;

    let failed = calls.failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
    let (usual, _) = before.longest.into_inner().unwrap();
    let (longest, what) = calls.longest.into_inner().unwrap();
    let made = calls.made.into_inner();
    let told = format!(
        "of {made} calls {what} took longest, {longest:?}; {usual:?} without the locks; a plain commit {plain:?}"
    );
    println!("{told}");
    let slow = usual.max(COMMITS * plain);
    assert!(longest <= LONGEST_CALL + slow, "{told}");
    assert!(made > 100, "only {made} calls");
    for hold in holds {
        assert!(!hold.is_lost(), "{} was lost", hold.external_id());
        hold.release().await.unwrap();
    }
    drop(engines);
    place.clear().await;
}

fn locked_for() -> Duration {
    let ms = env::var("LOCKHOUSE_ISOLATION_MS").map_or(6_000, |ms| ms.parse().unwrap());
    Duration::from_millis(ms)
}

async fn hold(engines: &[Lockhouse]) -> Vec<lockhouse::Permit> {
    let mut holds = Vec::new();
    for engine in engines {
        for name in ["stranger-0", "stranger-9", "locked-1"] {
            let hold = engine
                .request()
                .permits(name, 1)
                .ttl(Duration::from_secs(4));
            holds.push(hold.try_acquire().await.unwrap());
        }
    }
    holds
}
