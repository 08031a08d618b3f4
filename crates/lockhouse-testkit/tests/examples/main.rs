//! The examples of `lockhouse`, run on real servers.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../lockhouse/examples/api_rate.rs"]
mod api_rate;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../lockhouse/examples/cron.rs"]
mod cron;
mod fenced;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../lockhouse/examples/fenced_mysql.rs"]
mod fenced_mysql;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../lockhouse/examples/fenced_postgres.rs"]
mod fenced_postgres;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../lockhouse/examples/job_pool.rs"]
mod job_pool;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../lockhouse/examples/two_semaphores.rs"]
mod two_semaphores;

use std::time::{Duration, Instant};

use lockhouse_testkit::place::Place;
use lockhouse_testkit::{audit, on_each_store, rows};

on_each_store!(
    jobs_on_two_machines_share_their_slots,
    a_report_is_made_by_one_at_a_time,
    calls_are_no_more_than_the_api_allows,
    two_semaphores_are_taken_at_once,
);

async fn jobs_on_two_machines_share_their_slots(place: Place) {
    let both = tokio::join!(job_pool::run(place.url()), job_pool::run(place.url()));
    assert_eq!((both.0.unwrap(), both.1.unwrap()), (12, 12));
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0], "never more than three");
    let slots = place.client().await.status("job-slots").await.unwrap();
    assert_eq!((slots.semaphore.fence, slots.semaphore.in_use), (24, 0));
    place.clear().await;
}

async fn a_report_is_made_by_one_at_a_time(place: Place) {
    let other = place.client().await.mutex("hourly-report");
    let held = other.lock().await.unwrap();
    assert!(!cron::run(place.url()).await.unwrap());
    held.release().await.unwrap();
    assert!(cron::run(place.url()).await.unwrap());
    place.clear().await;
}

async fn calls_are_no_more_than_the_api_allows(place: Place) {
    let began = Instant::now();
    api_rate::run(place.url()).await.unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(2),
        "five, five and two: {took:?}"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    place.clear().await;
}

async fn two_semaphores_are_taken_at_once(place: Place) {
    two_semaphores::run(place.url()).await.unwrap();
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    for row in &rows.semaphores {
        assert_eq!((row.fence, row.in_use), (4, 0), "{row:?}");
    }
    place.clear().await;
}
