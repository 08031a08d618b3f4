//! The meaning of answers.

use std::time::{Duration, Instant};

use lockhouse::liveness::Verdict::{Alive, Gone, Unknown};
use lockhouse::liveness::{SqlCheck, Verdict};

use crate::jobs::{Jobs, on_each_database, verdict};

on_each_database! {
    one_is_alive_zero_and_no_row_are_gone_and_all_else_is_unknown,
    a_truth_is_as_good_as_a_number,
    the_owner_is_bound,
    a_query_that_the_database_refuses_means_unknown,
    a_check_only_reads,
    a_killed_connection_is_replaced,
}

async fn one_is_alive_zero_and_no_row_are_gone_and_all_else_is_unknown(jobs: &Jobs) {
    let check = jobs.check("SELECT state FROM jobs WHERE id = ?");
    for (owner, expected) in [
        ("job-1", Alive),
        ("job-2", Gone),
        ("job-3", Unknown),
        ("job-4", Unknown),
        ("job-5", Unknown),
        ("job-6", Gone),
        ("job-1", Alive),
    ] {
        assert_eq!(verdict(&check, owner).await, expected, "{owner}");
    }
    for (columns, what) in [("id", "a text"), ("state, state", "two columns")] {
        let check = jobs.check(&format!("SELECT {columns} FROM jobs WHERE id = ?"));
        assert_eq!(verdict(&check, "job-1").await, Unknown, "{what}");
        assert_eq!(verdict(&check, "job-6").await, Gone, "no row of {what}");
    }
}

async fn a_truth_is_as_good_as_a_number(jobs: &Jobs) {
    for query in [
        "SELECT state = 1 FROM jobs WHERE id = ?",
        "SELECT EXISTS (SELECT 1 FROM jobs WHERE id = ? AND state = 1)",
        "SELECT COUNT(*) FROM jobs WHERE id = ? AND state = 1",
    ] {
        let check = jobs.check(query);
        for (owner, expected) in [("job-1", Alive), ("job-2", Gone), ("job-6", Gone)] {
            assert_eq!(verdict(&check, owner).await, expected, "{query} {owner}");
        }
    }
}

/// No name is SQL.
async fn the_owner_is_bound(jobs: &Jobs) {
    let check = jobs.check("SELECT state FROM jobs WHERE id = ?");
    assert_eq!(verdict(&check, "O'Brien ? $1; --").await, Alive);
    let not_there = "x' OR '1' = '1";
    assert_eq!(verdict(&check, not_there).await, Gone);
    assert_eq!(verdict(&check, "'; DROP TABLE jobs; --").await, Gone);
    assert_eq!(verdict(&check, "job-1").await, Alive);
}

async fn a_query_that_the_database_refuses_means_unknown(jobs: &Jobs) {
    for query in [
        "SELECT 1 FROM no_such_table WHERE id = ?",
        "SELECT no_such_column FROM jobs WHERE id = ?",
        "SELEKT ?",
        "SELECT 1 FROM jobs WHERE id = '?'",
    ] {
        let check = jobs.check(query);
        for _ in 0..2 {
            assert_eq!(verdict(&check, "job-1").await, Unknown, "{query}");
        }
    }
    let two = match jobs.parameter() {
        "?" => "SELECT 1 FROM jobs WHERE id = ? OR id = ?",
        _ => "SELECT 1 FROM jobs WHERE id = $1 OR id = $2",
    };
    let check = SqlCheck::new(jobs.url(), two).unwrap();
    assert_eq!(verdict(&check, "job-1").await, Unknown);
    let elsewhere = format!("{}x", jobs.url());
    let query = format!("SELECT 1 FROM jobs WHERE id = {}", jobs.parameter());
    let check = SqlCheck::new(elsewhere, query).unwrap();
    assert_eq!(verdict(&check, "job-1").await, Unknown, "no such database");
}

async fn a_check_only_reads(jobs: &Jobs) {
    for query in [
        "DELETE FROM jobs WHERE id = ?",
        "UPDATE jobs SET state = 0 WHERE id = ?",
    ] {
        let check = jobs.check(query);
        assert_eq!(verdict(&check, "job-1").await, Unknown, "{query}");
    }
    let check = jobs.check("SELECT state FROM jobs WHERE id = ?");
    assert_eq!(verdict(&check, "job-1").await, Alive);
}

/// Only the query on the killed connection may get no answer.
async fn a_killed_connection_is_replaced(jobs: &Jobs) {
    let check = jobs.check("SELECT state FROM jobs WHERE id = ?");
    assert_eq!(verdict(&check, "job-1").await, Alive);
    jobs.kill_the_others().await;
    let until = Instant::now() + Duration::from_secs(10);
    let mut first: Option<Verdict> = None;
    loop {
        let verdict = verdict(&check, "job-1").await;
        assert_ne!(verdict, Gone);
        first.get_or_insert(verdict);
        if verdict == Alive {
            return;
        }
        assert!(Instant::now() < until);
    }
}
