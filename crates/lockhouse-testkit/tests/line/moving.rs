//! Callers whose process stops or dies ask again at another process, and keep their places.

use std::time::Duration;

use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep};

use crate::queue::{Doomed, LONG, Served, ask, hold, until_waiting};

const A_MOMENT: Duration = Duration::from_millis(5);

/// The next waiter comes more than the window and a commit later.
const APART: Duration = Duration::from_millis(700);

/// A caller that asks again has its old place after this time.
const SETTLED: Duration = Duration::from_millis(1_500);

on_each_store!(
    waiters_of_a_process_that_stops_keep_their_places,
    a_waiter_of_a_process_that_dies_keeps_its_place,
);

async fn waiters_of_a_process_that_stops_keep_their_places(place: Place) {
    let (stops, stays) = (place.client().await, place.client().await);
    stays.define("s", 1).await.unwrap();
    hold(&stays, "held", &[("s", 1)]).await;
    let mut calls = Vec::new();
    for id in ["1", "2"] {
        let stops = stops.clone();
        let call = async move { stops.acquire(ask(id, &[("s", 1)]), LONG).await };
        calls.push(tokio::spawn(call));
        sleep(APART).await;
    }
    let (served, mut waiters) = (Served::default(), Vec::new());
    waiters.push(served.waits(&stays, ask("3", &[("s", 1)]), A_MOMENT));
    until_waiting(&place, "s", 3).await;
    sleep(APART).await;

    stops.hand_over_waiters().await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    stops.close().await;
    // The second waiter asks first, at a process that has just started.
    let starts = place.client().await;
    for (at, id) in [(&starts, "2"), (&stays, "1"), (&starts, "4")] {
        waiters.push(served.waits(at, ask(id, &[("s", 1)]), A_MOMENT));
        sleep(APART).await;
    }
    until_waiting(&place, "s", 4).await;
    sleep(SETTLED).await;
    let listed = place.client().await.waiting("s").await.unwrap();
    let listed: Vec<_> = listed.iter().map(|it| it.external_id.as_str()).collect();
    assert_eq!(listed, ["1", "2", "3", "4"]);
    let released = Instant::now();
    stays.release("held").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(released, &["1", "2", "3", "4"]);
    place.clear().await;
}

async fn a_waiter_of_a_process_that_dies_keeps_its_place(place: Place) {
    let (dies, stays) = (place.client().await, place.client().await);
    stays.define("s", 1).await.unwrap();
    hold(&stays, "held", &[("s", 1)]).await;
    let dies = Doomed::waits(dies, "1".into());
    sleep(APART).await;
    let (served, mut waiters) = (Served::default(), Vec::new());
    waiters.push(served.waits(&stays, ask("2", &[("s", 1)]), A_MOMENT));
    until_waiting(&place, "s", 2).await;
    // The dying process has published its waiter by this time.
    sleep(SETTLED).await;
    drop(dies);
    waiters.push(served.waits(&stays, ask("1", &[("s", 1)]), A_MOMENT));
    sleep(SETTLED).await;
    let released = Instant::now();
    stays.release("held").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(released, &["1", "2"]);
    place.clear().await;
}
