//! Two hundred commands in line for one permit of a database that gives out fewer connections than that.

use std::time::{Duration, Instant};

use crate::house::{House, Running};
use lockhouse::Lockhouse;
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::statements;
use lockhouse_testkit::private_server::PrivateServer;
use tokio::time::sleep;
use url::Url;

const RUNS: u32 = 200;

/// The design allows 200 while nothing moves. 202 and 216 were counted on two cores beside other tests.
const MOST_A_SECOND: f64 = 300.0;

/// A connection that was used often is kept for 5 s.
const SETTLED_AFTER: Duration = Duration::from_secs(15);

const COUNTED_FOR: Duration = Duration::from_secs(10);

/// Few may ask for a connection at once on a machine that is busy with starting them.
const ALL_WAIT_WITHIN: Duration = Duration::from_secs(120);

/// The number of connections that MySQL gives out unless it is told otherwise.
const CONNECTIONS: &str = "SET GLOBAL max_connections = 151";

/// P11, and a run that is far behind keeps no connection while it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_runs_in_line_cost_few_queries_and_all_are_granted_on_mysql() {
    let Some(server) = PrivateServer::start("mysql") else {
        return;
    };
    let place = server.place().await;
    let client = place.client().await;
    client.define("one", 1).await.unwrap();
    let held = client.request_with_id("held").permits("one", 1);
    let held = held.acquire().await.unwrap();
    server.set(&[CONNECTIONS]).await;
    let house = House::at(&for_an_application(place.url()).await);

    let begun = Instant::now();
    let run = ["run", "-s", "one", "--", "true"];
    let runs: Vec<Running> = (0..RUNS).map(|_| house.start(&run)).collect();
    until_all_wait(&client).await;
    println!("all wait after {:?}", begun.elapsed());
    sleep(SETTLED_AFTER).await;
    let (before, begun) = (statements(place.url()).await, Instant::now());
    sleep(COUNTED_FOR).await;
    let sent = statements(place.url()).await - before;
    let rate = sent as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.1} a second");
    assert!(rate <= MOST_A_SECOND, "{rate:.1} a second");

    let begun = Instant::now();
    held.release().await.unwrap();
    for run in runs {
        let done = run.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    println!("all are done after {:?}", begun.elapsed());
    assert_eq!(client.status("one").await.unwrap().semaphore.in_use, 0);
}

/// The URL for a user without the connection that MySQL keeps for administrators.
async fn for_an_application(url: &str) -> String {
    let mut url = Url::parse(url).unwrap();
    let database = url.path().trim_start_matches('/').to_owned();
    let create = format!("CREATE USER app@'%'; GRANT ALL ON {database}.* TO app@'%'");
    Database::open(url.as_str()).await.run(&create).await;
    url.set_username("app").unwrap();
    url.into()
}

async fn until_all_wait(client: &Lockhouse) {
    let begun = Instant::now();
    // While they come, this client may find no connection free.
    while !matches!(client.status("one").await, Ok(status) if status.waiting == RUNS) {
        assert!(begun.elapsed() < ALL_WAIT_WITHIN, "not all wait");
        sleep(Duration::from_millis(100)).await;
    }
}
