//! The plans that the locking depends on, as real servers choose them.

use std::time::Duration;

use lockhouse_core::store::Purge;
use lockhouse_core::{
    Changes, EndReason, Ended, ExternalId, Footprint, Owner, SemaphoreName, Timestamp,
};

use super::{MARIADB, MYSQL, SEMAPHORES, column, database, lend, remove, run, server};
use crate::mysql::cluster::Node;
use crate::mysql::sql::Text;
use crate::mysql::{MySql, MySqlServer, load, purge, save};
use crate::sql::load::script;
use crate::sql::{RowIds, Script, list};

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
async fn mysql_interrupts_no_session_of_another_node() {
    interrupts_no_session_of_another_node(MYSQL).await;
}

#[tokio::test]
async fn mariadb_interrupts_no_session_of_another_node() {
    interrupts_no_session_of_another_node(MARIADB).await;
}

/// A proxy may connect the session that interrupts to another node, where the number is another session's.
async fn interrupts_no_session_of_another_node(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let (mut sleeper, mut other) = (lend(&store, variable).await, lend(&store, variable).await);
    let session = run(
        &mut sleeper,
        "SHOW VARIABLES WHERE Variable_name IN ('pseudo_thread_id','hostname','port','server_id')",
    );
    let interrupt = Node::of(&session.await).unwrap().interruption().unwrap();
    for elsewhere in ["hostname", "port", "server_id"] {
        let elsewhere = interrupt.replace(&format!("@@{elsewhere}="), &format!("@@{elsewhere}<>"));
        assert_ne!(elsewhere, interrupt);
        let sleep = run(&mut sleeper, "SELECT SLEEP(0.3) AS interrupted");
        let (slept, refused) = tokio::join!(sleep, async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            other.run(&Script::of(&elsewhere), "a test").await
        });
        assert_eq!(column(&slept[0], "interrupted"), "0");
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("thread id"), "{refused}");
    }
    let sleep = Script::of("SELECT SLEEP(5) AS interrupted");
    let (slept, interrupted) = tokio::join!(sleeper.run(&sleep, "a test"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        other.run(&Script::of(&interrupt), "a test").await
    });
    interrupted.unwrap();
    // MySQL answers 1, MariaDB with an error.
    if let Ok(slept) = slept {
        assert_eq!(column(&slept[0][0], "interrupted"), "1");
    }
    remove(&base, &database).await;
}
