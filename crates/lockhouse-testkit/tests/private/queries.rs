//! The cost of a long line for the database, counted on a private server.

use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_testkit::place::statements;
use lockhouse_testkit::private_server::PrivateServer;
use tokio::time::{Instant, sleep};

const WAITERS: u32 = 1_000;

/// The most queries that the design allows. On PostgreSQL they are transactions.
const MOST_A_SECOND: f64 = 25.0;

const COUNTED_FOR: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_at_one_process_cost_few_queries_on_mysql() {
    cost_few_queries("mysql").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_at_one_process_cost_few_queries_on_postgres() {
    cost_few_queries("postgres").await;
}

async fn cost_few_queries(server: &'static str) {
    let Some(server) = PrivateServer::start(server) else {
        return;
    };
    let place = server.place().await;
    let lockhouse = place.client().await;
    lockhouse.define("full", 1).await.unwrap();
    let held = lockhouse.request_with_id("held").permits("full", 1);
    let held = held.without_ttl().acquire().await.unwrap();
    let waiters: Vec<_> = (0..WAITERS).map(|i| wait(&lockhouse, i)).collect();
    until_all_wait(&lockhouse).await;
    // PostgreSQL's statistics are up to 10 s late.
    sleep(Duration::from_secs(12)).await;
    let (before, begun) = (statements(place.url()).await, Instant::now());
    sleep(COUNTED_FOR).await;
    let sent = statements(place.url()).await - before;
    let rate = sent as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.1} a second");
    assert!(rate <= MOST_A_SECOND, "{rate:.1} a second");
    for waiter in waiters {
        waiter.abort();
    }
    held.release().await.unwrap();
    place.clear().await;
}

fn wait(lockhouse: &Lockhouse, number: u32) -> tokio::task::JoinHandle<()> {
    let ask = lockhouse.request_with_id(format!("waits-{number}"));
    let ask = ask.permits("full", 1).wait(Duration::from_secs(120));
    tokio::spawn(async move {
        let granted = ask.acquire().await;
        panic!("nothing came free: {granted:?}");
    })
}

async fn until_all_wait(lockhouse: &Lockhouse) {
    let begun = Instant::now();
    while lockhouse.status("full").await.unwrap().waiting < WAITERS {
        assert!(begun.elapsed() < Duration::from_secs(30), "not all wait");
        sleep(Duration::from_millis(20)).await;
    }
}
