//! Processes with waiters all the time share the permits.

use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::queue::{LONG, ask};

const HELD: Duration = Duration::from_millis(20);

const RUNS: Duration = Duration::from_secs(8);

on_each_store!(one_waiter_against_eight_at_another_process_is_served_as_they_are);

/// Waits, holds and releases again and again; how long each wait took.
fn loops(lockhouse: &Lockhouse, who: String) -> JoinHandle<Vec<Duration>> {
    let lockhouse = lockhouse.clone();
    tokio::spawn(async move {
        let (begun, mut waits) = (Instant::now(), Vec::new());
        while begun.elapsed() < RUNS {
            let id = format!("{who}-{}", waits.len());
            let asked = Instant::now();
            lockhouse
                .acquire(ask(&id, &[("s", 1)]), LONG)
                .await
                .unwrap();
            waits.push(asked.elapsed());
            sleep(HELD).await;
            lockhouse.release(&id).await.unwrap();
        }
        waits
    })
}

fn p50(mut waits: Vec<Duration>) -> Duration {
    waits.sort();
    waits[waits.len() / 2]
}

async fn one_waiter_against_eight_at_another_process_is_served_as_they_are(place: Place) {
    let (crowded, quiet) = (place.client().await, place.client().await);
    crowded.define("s", 1).await.unwrap();
    let many: Vec<_> = (0..8)
        .map(|i| loops(&crowded, format!("many-{i}")))
        .collect();
    let lone = loops(&quiet, "lone".into());
    let mut waits = Vec::new();
    for one in many {
        waits.extend(one.await.unwrap());
    }
    let lone = lone.await.unwrap();
    let (served, many, alone) = (lone.len(), p50(waits), p50(lone));
    println!("p50 {many:?} for each of eight, {alone:?} for the lone one, {served} times");
    assert!(served >= 4 && alone < many + Duration::from_millis(1_500));
    place.clear().await;
}
