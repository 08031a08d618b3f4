//! P12: no statement scans a table, so none costs more as history grows.

use crate::sqlite::{due, load, purge, read, save, schema, templates, tokens, waiting_list, walk};

use super::*;

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
        due::STATEMENTS,
        purge::STATEMENTS,
        walk::STATEMENTS,
        waiting_list::STATEMENTS,
        templates::STATEMENTS,
        tokens::STATEMENTS,
    ];
    for sql in all.concat() {
        let plan = plan(connection, sql);
        // The virtual table is the list of names that a caller gave.
        let scans = |step: &String| step.contains("SCAN") && !step.contains("VIRTUAL TABLE");
        assert!(!plan.iter().any(scans), "{sql}\n{plan:#?}");
    }
    for (sql, index) in [
        (due::EXPIRED, "lockhouse_permit_request_live_by_expiry"),
        (due::SILENT, "lockhouse_owner_session_by_expiry"),
        (due::SILENT, "lockhouse_permit_request_live_by_owner"),
        (due::EXPIRED_ON, "lockhouse_permit_request_live_by_expiry"),
        (due::SILENT_ON, "lockhouse_owner_session_by_expiry"),
        (due::SILENT_ON, "lockhouse_permit_request_live_by_owner"),
        (due::LAST_OF_AGE, "lockhouse_permit_request_live_by_expiry"),
        (due::STALE, "lockhouse_permit_request_live_by_expiry"),
        (due::OWNED_BY, "lockhouse_permit_request_live_by_owner"),
        (read::NEXT_OWNER, "lockhouse_permit_request_live_by_owner"),
        (
            purge::LIST_REQUESTS,
            "lockhouse_permit_request_ended_by_time",
        ),
        (
            purge::LIST_CAPACITY_CHANGES,
            "lockhouse_capacity_change_by_time",
        ),
        (purge::LIST_SESSIONS, "lockhouse_owner_session_by_expiry"),
        (
            purge::LIST_SESSIONS,
            "lockhouse_permit_request_live_by_owner",
        ),
        (waiting_list::LIST_OLD, "lockhouse_waiting_by_time"),
        (templates::LIST_SMALLER, "lockhouse_semaphore_by_template"),
        (templates::LIST_LARGER, "lockhouse_semaphore_by_template"),
        (templates::LIST_IDLE, "lockhouse_semaphore_by_use"),
        (walk::FROM, "lockhouse_permit_request_live"),
        (walk::IN, "lockhouse_permit_request_live"),
        (walk::OWNED_FROM, "lockhouse_permit_request_live_by_owner"),
        (walk::OWNED_IN, "lockhouse_permit_request_live_by_owner"),
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
    // A sort reads all its rows before the first one is returned.
    let in_order = [read::NEXT_OWNER, read::LIST_SEMAPHORES];
    let all = [
        due::STATEMENTS,
        purge::STATEMENTS,
        walk::STATEMENTS,
        &in_order,
    ];
    for sql in all.concat() {
        let plan = plan(connection, sql);
        let sorts = |step: &String| step.contains("TEMP B-TREE");
        assert!(!plan.iter().any(sorts), "{sql}\n{plan:#?}");
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
    commands.extend((0..100).map(|i| heartbeat(&format!("o-{i}"), 60_000)));
    commands.push(define("c", 1_000));
    commands.extend((0..200).map(|i| acquire_for(&format!("o-{i}"), &format!("of-{i}"), "c")));
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
