//! Holds a permit for a test, in a separate process that the test can stop or kill.
//!
//! `holder URL SEMAPHORE EXTERNAL_ID TTL_MS` prints `held` once it holds the permit, and `renewed` once the answer to the
//! first renewal is there. Then it answers each line on stdin with `held` or `lost`, like a job that checks its hold
//! before its next step. Meanwhile another thread renews the hold.
//!
//! `holder pay URL held|finish EXTERNAL_ID` begins a transaction, writes a row of the table `payment`,
//! runs the statement, and prints `done`. When it reads a line, it commits and prints `committed`.

use std::future::Future;
use std::io::{BufRead as _, stdin};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread::sleep;
use std::time::Duration;

use lockhouse::caller::{finish_sql, held_sql};
use lockhouse::{Lockhouse, Permit};
use lockhouse_testkit::database::{Database, Value};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["pay", url, verb, id] => pay(url, verb, id),
        [url, semaphore, id, ttl_ms] => hold(url, semaphore, id, ttl_ms),
        _ => panic!("holder URL SEMAPHORE EXTERNAL_ID TTL_MS, or holder pay URL VERB EXTERNAL_ID"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn pay(url: &str, verb: &str, id: &str) {
    let mut database = Database::open(url).await;
    let dialect = database.dialect().await;
    let sql = match verb {
        "held" => held_sql(dialect),
        "finish" => finish_sql(dialect),
        other => panic!("no statement is called {other}"),
    };
    database.begin().await;
    let payment = format!("INSERT INTO payment VALUES ('{id}')");
    database.run(&payment).await;
    database.execute(sql, &[Value::Text(id)]).await.unwrap();
    println!("done");
    stdin().read_line(&mut String::new()).unwrap();
    database.run("COMMIT").await;
    println!("committed");
}

fn hold(url: &str, semaphore: &str, id: &str, ttl_ms: &str) {
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let permit = runtime.block_on(async {
        let lockhouse = Lockhouse::connect(url).await.unwrap();
        let ask = lockhouse.request_with_id(id).permits(semaphore, 1);
        ask.ttl(ttl).acquire().await.unwrap()
    });
    println!("held");
    let granted_until = permit.held_until();
    while permit.held_until() == granted_until {
        sleep(Duration::from_millis(1));
    }
    println!("renewed");
    let _timers = runtime.enter();
    for line in stdin().lock().lines() {
        line.unwrap();
        println!("{}", look(&permit));
    }
}

/// Looks at the permit in both ways, which must agree.
fn look(permit: &Permit) -> &'static str {
    let is_lost = permit.is_lost();
    let lost = pin!(permit.lost()).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(is_lost, matches!(lost, Poll::Ready(_)));
    if is_lost { "lost" } else { "held" }
}
