//! The plans that the locking depends on, as real servers choose them.

use std::cell::Cell;
use std::time::Duration;

use lockhouse_core::store::Purge;
use lockhouse_core::{
    Changes, EndReason, Ended, ExternalId, Footprint, Key, Owner, SemaphoreName, Timestamp,
};

use super::{MARIADB, MYSQL, SEMAPHORES, column, database, lend, remove, run, server};
use crate::mysql::cluster::Node;
use crate::mysql::sql::Text;
use crate::mysql::{MySql, MySqlServer, load, purge, save};
use crate::sql::load::script;
use crate::sql::{Inserts, Lease, RowIds, Script, list};

#[tokio::test]
async fn mysql_finds_what_it_locks_by_the_unique_indexes() {
    finds_what_it_locks_by_the_unique_indexes(MYSQL).await;
}

#[tokio::test]
async fn mariadb_finds_what_it_locks_by_the_unique_indexes() {
    finds_what_it_locks_by_the_unique_indexes(MARIADB).await;
}

/// A scan would lock other rows; a sort would mean that rows are locked in another order. The last
/// round has outdated statistics.
async fn finds_what_it_locks_by_the_unique_indexes(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let mut rows = 0;
    for more in [0, 1, 1, 48, 1950, 6000] {
        fill(&store, rows, rows + more).await;
        if more < 6000 {
            analyze(&store).await;
        }
        rows += more;
        for asked in [1, 2, 64, 1500, 12_000] {
            let mut lease = lend(&store, variable).await;
            let load = script::<MySqlServer>(&footprint(asked));
            let save = ended(asked);
            let purges = purged(asked);
            let permits = load::permits(&(1..=asked as u64).collect::<Vec<_>>());
            let scripts = [load.text(), permits.text(), save.text(), &purges];
            let statements = scripts.iter().flat_map(|script| script.split(';'));
            for statement in statements.filter(|s| s.contains("FROM") || s.starts_with("UPDATE")) {
                // Without its time limit, which MariaDB does not explain.
                let at = statement
                    .find("SELECT")
                    .filter(|_| statement.starts_with("/*"));
                let statement = &statement[at.unwrap_or_default()..];
                let plan = run(&mut lease, &format!("EXPLAIN {statement}")).await;
                for step in plan {
                    // A name from the statement itself is no table, and not another session's.
                    if column(&step, "table").starts_with('<') {
                        continue;
                    }
                    let (access, extra) = (column(&step, "type"), column(&step, "Extra"));
                    let by_index = ["", "const", "eq_ref", "ref", "range"].contains(&&*access);
                    assert!(
                        by_index && !extra.contains("filesort"),
                        "{access} {extra}: {rows} rows, {asked} asked: {statement:.120}"
                    );
                }
            }
        }
    }
    remove(&base, &database).await;
}

async fn fill(store: &MySql, from: usize, to: usize) {
    let mut lease = store.0.pool.lend(Duration::from_secs(9)).await.unwrap();
    let now = "SYSDATE(6)";
    let rows = |row: &dyn Fn(usize) -> String| list((from..to).map(row));
    let semaphores = rows(&|i| format!("({i}+1,'s{i:06}',1,1,1,{now},{now},NULL)"));
    let requests = rows(&|i| format!("({i}+1,'r{i:06}',1,{now})"));
    let permits = rows(&|i| format!("({i}+1,{i}+1,1,1)"));
    let sessions = rows(&|i| format!("('w{i:06}',1,{now})"));
    for (table, rows) in [
        (SEMAPHORES, semaphores),
        (
            "lockhouse_permit_request (id,external_id,state,created_at)",
            requests,
        ),
        (
            "lockhouse_permit (permit_request_id,semaphore_id,count,fence)",
            permits,
        ),
        ("lockhouse_owner_session", sessions),
    ] {
        if from < to {
            run(&mut lease, &format!("INSERT INTO {table} VALUES {rows}")).await;
        }
    }
}

async fn analyze(store: &MySql) {
    let mut lease = store.0.pool.lend(Duration::from_secs(9)).await.unwrap();
    for table in ["semaphore", "permit_request", "permit", "owner_session"] {
        run(&mut lease, &format!("ANALYZE TABLE lockhouse_{table}")).await;
    }
}

fn footprint(asked: usize) -> Footprint {
    let semaphores = (0..asked).map(|i| SemaphoreName::parse(format!("s{i:06}")).unwrap());
    let requests = (0..asked).map(|i| ExternalId::parse(format!("r{i:06}")).unwrap());
    Footprint {
        semaphores: semaphores.collect(),
        requests: requests.collect(),
        owners: (0..asked).map(owner).collect(),
        ..Footprint::default()
    }
}

fn owner(i: usize) -> Owner {
    Owner::parse(format!("w{i:06}")).unwrap()
}

/// The end of `asked` requests and of a session.
fn ended(asked: usize) -> Script {
    let mut ids = RowIds::default();
    let mut changes = Changes::default();
    for (id, external_id) in (1..).zip(footprint(asked).requests) {
        ids.requests.insert(external_id.clone(), id);
        changes.ended.push(Ended {
            external_id,
            reason: EndReason::Released,
            at: Timestamp::UNIX_EPOCH,
            by: None,
        });
    }
    changes.goodbyes = vec![owner(0)];
    save::script(Script::new(), &changes, &ids).unwrap()
}

/// The locks of a purge of `asked` rows of each kind, and their deletion.
fn purged(asked: usize) -> String {
    let age = Duration::ZERO;
    let ids: Vec<_> = (1..=asked).map(|id| id.to_string()).collect();
    let external_ids = footprint(asked).requests;
    let external_ids = external_ids.iter().map(|id| Text(id.as_str()).to_string());
    let external_ids = external_ids.collect();
    let owners: Vec<_> = (0..asked)
        .map(|i| Text(owner(i).as_str()).to_string())
        .collect();
    let names = footprint(asked).semaphores;
    let names: Vec<_> = names
        .iter()
        .map(|name| Text(name.as_str()).to_string())
        .collect();
    let purges = [
        (Purge::Requests { age }, &external_ids, &ids),
        (Purge::CapacityChanges { age }, &ids, &ids),
        (Purge::Sessions { age }, &owners, &owners),
        (Purge::Semaphores { age }, &names, &ids),
    ];
    let statements = purges.map(|(what, keys, ids)| {
        let lock = purge::lock(what, Timestamp::UNIX_EPOCH, &list(keys));
        // As many as one statement deletes.
        let deleted = match what {
            Purge::Requests { .. } => &ids[..asked.min(100)],
            _ => &ids[..1],
        };
        format!("{};{}", lock.text(), purge::delete(what, deleted).text())
    });
    statements.join(";")
}

#[tokio::test]
async fn mysql_interrupts_an_insert_of_the_same_node_and_nothing_else() {
    interrupts_an_insert_of_the_same_node_and_nothing_else(MYSQL).await;
}

#[tokio::test]
async fn mariadb_interrupts_an_insert_of_the_same_node_and_nothing_else() {
    interrupts_an_insert_of_the_same_node_and_nothing_else(MARIADB).await;
}

#[tokio::test]
async fn mysql_interrupts_no_slow_insert_that_waits_for_no_lock() {
    interrupts_no_slow_insert_that_waits_for_no_lock(MYSQL).await;
}

#[tokio::test]
async fn mariadb_interrupts_no_slow_insert_that_waits_for_no_lock() {
    interrupts_no_slow_insert_that_waits_for_no_lock(MARIADB).await;
}

/// Its work would be lost and done again. Other tests wait for locks on the same server, so whether a session does is set.
async fn interrupts_no_slow_insert_that_waits_for_no_lock(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    // An INSERT that is to be interrupted takes long enough for a slow machine.
    for (seconds, waits, is_interrupted) in [
        (0.6, "variable_value<0", false),
        (5.0, "variable_value>=0", true),
    ] {
        let owner = Owner::parse("x").unwrap();
        let mut insert = Script::new();
        insert.insert(
            Inserts::One(Key::Session(owner)),
            format_args!(
                "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) \
                 SELECT 'x',1,NOW() FROM DUAL WHERE SLEEP({seconds})=1"
            ),
        );
        let mut lease = lend(&store, variable).await;
        let interruption = interruption(&mut lease).await;
        lease.interrupt_by(with_condition(&interruption, "variable_value>0", waits));
        let inserted = lease.run(&insert, "a test").await;
        assert_eq!(inserted.is_err(), is_interrupted, "{waits}: {inserted:?}");
    }
    remove(&base, &database).await;
}

/// The script that interrupts what the session of `lease` executes.
async fn interruption(lease: &mut Lease<MySqlServer>) -> Script {
    let session = run(
        lease,
        "SHOW VARIABLES WHERE Variable_name IN ('pseudo_thread_id','hostname','port','server_id')",
    );
    Node::of(&session.await).unwrap().interruption().unwrap()
}

/// `interruption`, with `other` as one of its conditions.
fn with_condition(interruption: &Script, condition: &str, other: &str) -> Script {
    let (look, kill) = interruption.text().split_once(';').unwrap();
    let changed = look.replace(condition, other);
    assert_ne!(changed, look);
    let mut script = Script::of(changed);
    script.add(kill);
    script
}

#[tokio::test]
async fn mysql_interrupts_one_insert_after_the_other_by_one_connection() {
    interrupts_one_insert_after_the_other_by_one_connection(MYSQL).await;
}

#[tokio::test]
async fn mariadb_interrupts_one_insert_after_the_other_by_one_connection() {
    interrupts_one_insert_after_the_other_by_one_connection(MARIADB).await;
}

/// P13: a batch may meet several locked gaps. Opening a connection for each would take as long as several round trips.
async fn interrupts_one_insert_after_the_other_by_one_connection(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let mut holder = lend(&store, variable).await;
    let insert =
        "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) VALUES ('x',1,NOW())";
    run(&mut holder, "BEGIN").await;
    run(&mut holder, insert).await;
    let mut waits = Script::new();
    let owner = Owner::parse("x").unwrap();
    waits.insert(Inserts::One(Key::Session(owner)), insert);
    let mut lease = lend(&store, variable).await;
    let opened = store.0.pool.state().opened;
    for _ in 0..3 {
        let refused = lease.run(&waits, "a test").await.unwrap_err().to_string();
        assert!(refused.contains("1317 (70100)"), "{refused}");
    }
    assert_eq!(store.0.pool.state().opened, opened + 1);
    run(&mut holder, "ROLLBACK").await;
    remove(&base, &database).await;
}

/// A COMMIT that is interrupted may have committed. And a proxy may connect the session that interrupts to another
/// node, where the number is another session's.
async fn interrupts_an_insert_of_the_same_node_and_nothing_else(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let insert =
        "INSERT INTO lockhouse_owner_session (owner,ttl_ms,expires_at) VALUES ('x',1,NOW())";
    let no_target = match variable == MYSQL {
        true => "Unknown thread id: 0",
        false => "Unknown query id: -1",
    };
    for (executed, elsewhere, expected) in [
        (insert, Some("@@hostname="), false),
        (insert, Some("@@port="), false),
        (insert, Some("@@server_id="), false),
        ("SELECT SLEEP(0.4)", None, false),
        (insert, None, true),
    ] {
        let (mut sleeper, mut other) = (lend(&store, variable).await, lend(&store, variable).await);
        // So that the INSERT waits for a lock, which the server gives up after a second or two. A transaction that is idle
        // for longer than 5 s is ended.
        let mut holder = lend(&store, variable).await;
        run(&mut holder, "BEGIN").await;
        run(&mut holder, insert).await;
        let mut interrupt = interruption(&mut sleeper).await;
        if let Some(node) = elsewhere {
            interrupt = with_condition(&interrupt, node, &node.replace('=', "<>"));
        }
        let (executed, ended) = (Script::of(executed), Cell::new(false));
        let executing = async {
            let answers = sleeper.run(&executed, "a test").await;
            ended.set(true);
            answers
        };
        let interrupting = async {
            let mut interrupted = false;
            while !ended.get() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                match other.run(&interrupt, "a test").await {
                    Ok(_) => interrupted = true,
                    Err(_) if expected => {}
                    Err(error) => assert!(error.to_string().contains(no_target), "{error}"),
                }
            }
            interrupted
        };
        let (executed, interrupted) = tokio::join!(executing, interrupting);
        let word = executed.err().map(|error| error.to_string());
        let is_interrupted = word
            .as_ref()
            .is_some_and(|word| word.contains("1317 (70100)"));
        assert_eq!(
            (is_interrupted, interrupted),
            (expected, expected),
            "{elsewhere:?}, {word:?}: {}",
            interrupt.text()
        );
        run(&mut holder, "ROLLBACK").await;
    }
    remove(&base, &database).await;
}
