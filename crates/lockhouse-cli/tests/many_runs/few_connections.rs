//! Two hundred commands in line for one permit of a database that gives out fewer connections than that.

use std::env;
use std::time::{Duration, Instant};

use crate::house::{House, Running};
use lockhouse::Lockhouse;
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::queries;
use lockhouse_testkit::private_server::PrivateServer;
use tokio::sync::Mutex;
use tokio::time::sleep;
use url::Url;

const RUNS: u32 = 200;

/// The design allows so many while nothing moves: of statements, and on PostgreSQL of transactions.
const MOST_A_SECOND: f64 = 200.0;

/// A connection that was used often is kept for 5 s. PostgreSQL counts transactions up to 10 s late.
const SETTLED_AFTER: Duration = Duration::from_secs(15);

/// In such a line each entry is written every 40 s, and many processes write theirs at about the same time.
const COUNTED_FOR: Duration = Duration::from_secs(40);

/// Set to run this on all servers. Each takes two minutes.
const BY_HAND: &str = "LOCKHOUSE_TEST_RUNS_IN_LINE";

/// Ten seconds are usual. On a machine that is busy otherwise the database gets little time beside two hundred processes.
const ALL_WAIT_WITHIN: Duration = Duration::from_secs(240);

/// The number of connections that MySQL and MariaDB give out by default. PostgreSQL gives out 100.
const CONNECTIONS: &str = "SET GLOBAL max_connections = 151";

/// Six hundred processes at once are too many for a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_runs_in_line_cost_few_queries_and_all_are_granted_on_mysql() {
    two_hundred_runs("mysql", &[CONNECTIONS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_runs_in_line_cost_few_queries_and_all_are_granted_on_mariadb() {
    if !is_by_hand() {
        return;
    }
    two_hundred_runs("mariadb", &[CONNECTIONS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_runs_in_line_cost_few_queries_and_all_are_granted_on_postgres() {
    if !is_by_hand() {
        return;
    }
    two_hundred_runs("postgres", &[]).await;
}

fn is_by_hand() -> bool {
    env::var_os(BY_HAND).is_some()
}

/// P11, and a run that is far behind keeps no connection while it waits.
async fn two_hundred_runs(server: &'static str, settings: &[&str]) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(server) = PrivateServer::start(server) else {
        return;
    };
    let place = server.place().await;
    let client = place.client().await;
    client.define("one", 1).await.unwrap();
    let held = client.request_with_id("held").permits("one", 1);
    let held = held.acquire().await.unwrap();
    server.set(settings).await;
    let house = House::at(&for_an_application(place.url()).await);

    let begun = Instant::now();
    let run = ["run", "-s", "one", "--", "true"];
    let mut runs: Vec<Running> = (0..RUNS).map(|_| house.start(&run)).collect();
    until_all_wait(&client, &mut runs).await;
    println!("all wait after {:?}", begun.elapsed());
    sleep(SETTLED_AFTER).await;
    let (before, begun) = (queries(place.url()).await, Instant::now());
    sleep(COUNTED_FOR).await;
    let sent = queries(place.url()).await - before;
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

/// The URL for a user without the connections that the server keeps for administrators.
async fn for_an_application(url: &str) -> String {
    let mut url = Url::parse(url).unwrap();
    let database = url.path().trim_start_matches('/').to_owned();
    let create = match url.scheme() {
        "postgres" => "CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA public TO app; \
            GRANT ALL ON ALL TABLES IN SCHEMA public TO app; \
            GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO app"
            .to_owned(),
        _ => format!("CREATE USER app@'%'; GRANT ALL ON {database}.* TO app@'%'"),
    };
    Database::open(url.as_str()).await.run(&create).await;
    url.set_username("app").unwrap();
    url.into()
}

async fn until_all_wait(client: &Lockhouse, runs: &mut Vec<Running>) {
    let begun = Instant::now();
    loop {
        // While they come, this client may find no connection free.
        let waiting = client.status("one").await.map(|status| status.waiting);
        if matches!(waiting, Ok(RUNS)) {
            return;
        }
        if let Some(ended) = runs.iter_mut().position(|run| run.ended().is_some()) {
            panic!("one does not wait: {:?}", runs.swap_remove(ended).end());
        }
        let is_soon = begun.elapsed() < ALL_WAIT_WITHIN;
        assert!(is_soon, "not all wait: {waiting:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
