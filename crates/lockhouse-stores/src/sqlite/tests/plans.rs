//! P12: no statement scans a table, so none costs more as history grows.

use crate::sqlite::{load, read, save, schema};

use super::*;

/// What a sweep asks, which must find only the live.
const SWEEP: &[&str] = &[
    "SELECT external_id FROM lockhouse_permit_request
     WHERE state = 'ACQUIRED' AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2",
    "SELECT external_id FROM lockhouse_permit_request
     WHERE state = 'ACQUIRED' AND expires_at IS NULL AND created_at < ?1 LIMIT ?2",
];

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let mut steps = explain.raw_query();
    let mut plan = Vec::new();
    while let Some(step) = steps.next().unwrap() {
        plan.push(step.get("detail").unwrap());
    }
    plan
}

fn assert_flat(connection: &Connection) {
    let all = [
        load::STATEMENTS,
        save::STATEMENTS,
        read::STATEMENTS,
        schema::STATEMENTS,
        SWEEP,
    ];
    for sql in all.concat() {
        let plan = plan(connection, sql);
        assert!(
            !plan.iter().any(|step| step.contains("SCAN")),
            "{sql}\n{plan:#?}"
        );
    }
    for (sql, index) in [
        (SWEEP[0], "lockhouse_permit_request_live_by_expiry"),
        (SWEEP[1], "lockhouse_permit_request_live_by_expiry"),
        (read::LIST_LIVE, "lockhouse_permit_request_live"),
        (read::LIST_LIVE_ON, "lockhouse_permit_live_by_semaphore"),
        (read::LIST_SEMAPHORES, "lockhouse_semaphore_existing"),
        (
            read::LIST_CAPACITY_CHANGES,
            "lockhouse_capacity_change_by_semaphore",
        ),
    ] {
        let plan = plan(connection, sql);
        let uses = |step: &String| step.contains(&format!(" {index} ("));
        assert!(plan.iter().any(uses), "{sql}\n{plan:#?}");
    }
}

#[tokio::test]
async fn no_statement_scans() {
    let (place, store) = Place::migrated().await;
    let connection = place.connect();
    assert_flat(&connection);

    // Mostly history, and statistics that say so, which change what the planner likes.
    let mut commands = vec![define("a", 1_000), define("b", 1_000)];
    commands
        .extend((0..500).map(|i| acquire(&format!("r-{i}"), if i % 9 == 0 { "b" } else { "a" })));
    commands.extend((0..490).map(|i| Command::release(id(&format!("r-{i}")))));
    commands.extend((0..50).map(|i| define("a", i)));
    store.transact(&Batch::new(commands)).await.unwrap();
    connection.execute_batch("ANALYZE").unwrap();
    assert_flat(&place.connect());
}

#[test]
fn a_scan_is_seen() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (a)").unwrap();
    assert_eq!(plan(&connection, "SELECT a FROM t WHERE a = 1"), ["SCAN t"]);
}
