//! Databases that do not answer. A check soon returns "unknown", and works again when the database does.

use std::time::{Duration, Instant};

use lockhouse::liveness::SqlCheck;
use lockhouse::liveness::Verdict::{Alive, Unknown};
use tokio::net::TcpListener;

use crate::jobs::{Jobs, on_each_database, verdict};

/// The caller of a check gives it up after this time.
const PATIENCE: Duration = Duration::from_secs(10);

on_each_database! {
    a_question_that_waits_for_a_lock_is_given_up,
    a_question_that_takes_for_ever_is_given_up,
}

/// Another session locks the table exclusively, so that not even readers get to it.
async fn a_question_that_waits_for_a_lock_is_given_up(jobs: &Jobs) {
    let check = jobs.check("SELECT state FROM jobs WHERE id = ?");
    assert_eq!(verdict(&check, "job-1").await, Alive);
    let mut session = jobs.session().await;
    session.run(jobs.lock()).await;
    let began = Instant::now();
    assert_eq!(verdict(&check, "job-1").await, Unknown);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    session.run(jobs.unlock()).await;
    assert_eq!(verdict(&check, "job-1").await, Alive);
}

/// The database does not go on with the query.
async fn a_question_that_takes_for_ever_is_given_up(jobs: &Jobs) {
    let numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)";
    let check = jobs.check(&format!(
        "{numbers} SELECT COUNT(*) FROM n a, n b, n c, n d, n e, jobs WHERE id <> ?"
    ));
    let began = Instant::now();
    assert_eq!(verdict(&check, "job-1").await, Unknown);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    jobs.nobody_asks(PATIENCE).await;
}

/// A server accepts the connection, and sends nothing.
#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    for (scheme, parameter) in [("mysql", "?"), ("postgres", "$1")] {
        let url = format!("{scheme}://u@{address}/jobs");
        let query = format!("SELECT 1 FROM jobs WHERE id = {parameter}");
        let check = SqlCheck::new(url, query).unwrap();
        let began = Instant::now();
        assert_eq!(verdict(&check, "job-1").await, Unknown);
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }
}

/// Nobody listens on the port.
#[tokio::test]
async fn a_server_that_is_not_there_is_unknown() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mysql://u@{}/jobs", nobody.local_addr().unwrap());
    drop(nobody);
    let check = SqlCheck::new(url, "SELECT 1 FROM jobs WHERE id = ?").unwrap();
    assert_eq!(verdict(&check, "job-1").await, Unknown);
}
