//! Two hundred commands in line for one permit of a database that gives out fewer connections than that.

#![allow(clippy::unwrap_used)]

mod house;

use std::time::{Duration, Instant};

use house::{House, Running};
use lockhouse::Lockhouse;
use lockhouse_testkit::database::Database;
use lockhouse_testkit::private_server::PrivateServer;
use tokio::sync::Mutex;
use tokio::time::sleep;
use url::Url;

const RUNS: usize = 200;

/// A process that starts among hundreds on a busy machine may not be connected within the time for that.
const STARTED_AT_ONCE: usize = 25;

/// The most that the design allows while nothing moves. PostgreSQL's is of transactions.
const MOST_A_SECOND: f64 = 200.0;

/// A connection that was used often is kept for 5 s, and PostgreSQL counts up to 10 s late what was done before.
const SETTLED_AFTER: Duration = Duration::from_secs(15);

const COUNTED_FOR: Duration = Duration::from_secs(20);

/// Those that were started last.
const ALL_WAIT_WITHIN: Duration = Duration::from_secs(120);

/// They are granted one after the other, and each begins a command.
const ALL_DONE_WITHIN: Duration = Duration::from_secs(300);

/// The number of connections that MySQL gives out unless it is told otherwise. PostgreSQL gives out 100.
const MYSQL: &[&str] = &["SET GLOBAL max_connections = 151"];

/// Four hundred processes would be too many for a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_runs_in_line_cost_few_queries_and_all_are_granted_on_mysql() {
    two_hundred_runs("mysql", MYSQL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_runs_in_line_cost_few_queries_and_all_are_granted_on_postgres() {
    two_hundred_runs("postgres", &[]).await;
}

/// P11, and a run that is far behind keeps no connection while it waits. Runs that are far behind need not be served in their
/// order when a line moves that stood still: one that does not come within 700 ms may be passed over.
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
    // From before the server has no connection left.
    let mut counter = Database::open(place.url()).await;

    let begun = Instant::now();
    let run = ["run", "-s", "one", "--", "true"];
    let mut runs = Vec::new();
    while runs.len() < RUNS {
        runs.extend((0..STARTED_AT_ONCE).map(|_| house.start(&run)));
        until_all_wait(&client, &mut runs).await;
    }
    println!("all wait after {:?}", begun.elapsed());
    sleep(SETTLED_AFTER).await;
    let (before, begun) = (statements(&mut counter).await, Instant::now());
    sleep(COUNTED_FOR).await;
    let sent = statements(&mut counter).await - before;
    let rate = sent as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.1} a second");
    assert!(rate <= MOST_A_SECOND, "{rate:.1} a second");

    let begun = Instant::now();
    held.release().await.unwrap();
    while runs.iter().any(is_running) {
        assert!(begun.elapsed() < ALL_DONE_WITHIN, "not all are done");
        sleep(Duration::from_millis(100)).await;
    }
    for run in runs {
        let done = run.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    println!("all are done after {:?}", begun.elapsed());
    assert_eq!(client.status("one").await.unwrap().semaphore.in_use, 0);
}

/// The URL for a user without the connections that are kept for administrators.
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

/// How many there were so far; on PostgreSQL, transactions.
async fn statements(counter: &mut Database) -> i64 {
    let sent = match counter {
        Database::Postgres(_) => {
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        }
        _ => {
            "SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_status \
             WHERE VARIABLE_NAME = 'Questions'"
        }
    };
    counter.number(sent).await
}

async fn until_all_wait(client: &Lockhouse, runs: &mut Vec<Running>) {
    let (begun, all) = (Instant::now(), runs.len() as u32);
    // While they come, this client may find no connection free.
    while !matches!(client.status("one").await, Ok(status) if status.waiting == all) {
        if let Some(ended) = runs.iter().position(|run| !is_running(run)) {
            panic!("it gave up: {:?}", runs.swap_remove(ended).end());
        }
        assert!(begun.elapsed() < ALL_WAIT_WITHIN, "not all wait");
        sleep(Duration::from_millis(100)).await;
    }
}

fn is_running(run: &Running) -> bool {
    house::runs(&run.pid().to_string())
}
