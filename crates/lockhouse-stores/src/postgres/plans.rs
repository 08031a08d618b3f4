//! The plans that the locking and the costs depend on, as a real server chooses them.

mod due;
mod listings;
mod templates;
mod upkeep;

use std::io::Write as _;
use std::time::Duration;

use lockhouse_core::store::{Migration as _, Purge};
use lockhouse_core::{
    Changes, EndReason, Ended, ExternalId, Footprint, Owner, SemaphoreName, Timestamp,
};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::sql::Text;
use super::{Postgres, PostgresServer, load, purge, save};
use crate::sql::load::{known, script};
use crate::sql::rows::TextRow as _;
use crate::sql::{Dialect as _, Lease, RowIds, Script, list};

/// P6, P12. A scan would read other rows. A sort above the locks would mean that rows are locked in
/// another order.
#[tokio::test]
async fn locked_rows_are_found_by_unique_indexes_and_sorted_before() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    let mut rows = 0;
    for more in [0, 1, 1, 48, 1950] {
        fill(&store, rows, rows + more).await;
        rows += more;
        for asked in [1, 2, 64, 1500, 12_000] {
            let mut lease = lend(&store).await;
            let load = script::<PostgresServer>(&footprint(asked));
            let save = ended(asked);
            let purges = purged(asked);
            let permits = load::permits(&(1..=asked as u64).collect::<Vec<_>>());
            let scripts = [load.text(), permits.text(), save.text(), &purges];
            let statements = scripts.iter().flat_map(|script| script.split(';'));
            for statement in statements.filter(|s| s.contains("FROM") || s.starts_with("UPDATE")) {
                let plan = explain(&mut lease, "EXPLAIN", statement).await;
                let what = format!("{rows} rows, {asked} asked: {statement:.120}\n{plan:.900}");
                scans_by_index_conditions(&plan, &what);
                if statement.contains("FOR UPDATE") {
                    assert!(plan.starts_with("LockRows"), "{what}");
                }
            }
        }
    }
    remove(&base, &database).await;
}

/// P9. An answered commit is on disk, whatever the database's setting. A setting that promises more
/// is kept.
#[tokio::test]
async fn a_commit_is_on_disk_when_it_is_answered() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    for (set, found) in [("off", "on"), ("local", "local"), ("on", "on")] {
        let mut admin = PgConnection::connect(&base).await.unwrap();
        let set = format!("ALTER DATABASE {database} SET synchronous_commit={set}");
        admin.execute(set.as_str()).await.unwrap();
        let url = format!("{}/{database}", base.rsplit_once('/').unwrap().0);
        let fresh = Postgres::open(&url).unwrap();
        let rows = run(&mut lend(&fresh).await, "SHOW synchronous_commit").await;
        assert_eq!(rows[0].text(0).unwrap(), Some(found));
    }
    drop(store);
    remove(&base, &database).await;
}

/// Every scan is of an index, by a condition on it.
fn scans_by_index_conditions(plan: &str, what: &str) {
    let mut lines = plan.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.contains("Scan") || line.contains("Subquery Scan") {
            continue;
        }
        let by_index = line.contains("Index Scan") || line.contains("Index Only Scan");
        let next = lines.peek().copied().unwrap_or_default();
        assert!(by_index && next.contains("Index Cond"), "{line}: {what}");
    }
}

/// The server's URL, the name of a separate database, and a store on it with its schema.
async fn database() -> Option<(String, String, Postgres)> {
    let base = server()?;
    let database = format!("lockhouse_plans_{:016x}", fastrand::u64(..));
    let mut admin = PgConnection::connect(&base).await.unwrap();
    let create = format!("CREATE DATABASE {database}");
    admin.execute(create.as_str()).await.unwrap();
    let url = format!("{}/{database}", base.rsplit_once('/').unwrap().0);
    let store = Postgres::open(&url).unwrap();
    store.migrate().await.unwrap();
    Some((base, database, store))
}

async fn remove(base: &str, database: &str) {
    let mut admin = PgConnection::connect(base).await.unwrap();
    let remove = format!("DROP DATABASE {database} WITH (FORCE)");
    admin.execute(remove.as_str()).await.unwrap();
}

async fn lend(store: &Postgres) -> Lease<PostgresServer> {
    store.0.pool.lend(Duration::from_secs(9)).await.unwrap()
}

/// A plan as text.
async fn explain(lease: &mut Lease<PostgresServer>, how: &str, statement: &str) -> String {
    let plan = run(lease, &format!("{how} {statement}")).await;
    let lines = plan.iter().map(|line| line.text(0).unwrap().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// With statistics of the rows before, so that the server is wrong about the new ones.
async fn fill(store: &Postgres, from: usize, to: usize) {
    let mut lease = lend(store).await;
    let now = "clock_timestamp()";
    let rows = |row: &dyn Fn(usize) -> String| list((from..to).map(row));
    let semaphores = rows(&|i| format!("({i}+1,'s{i:06}',1,1,1,{now},{now},NULL)"));
    let requests =
        rows(&|i| format!("({i}+1,'r{i:06}',NULL,'ACQUIRED',NULL,NULL,NULL,{now},NULL,NULL)"));
    let permits = rows(&|i| format!("({i}+1,{i}+1,1,1)"));
    let sessions = rows(&|i| format!("('w{i:06}',1,{now})"));
    for (table, rows) in [
        ("lockhouse_semaphore", semaphores),
        ("lockhouse_permit_request", requests),
        ("lockhouse_permit", permits),
        ("lockhouse_owner_session", sessions),
    ] {
        run(&mut lease, &format!("ANALYZE {table}")).await;
        if from < to {
            run(&mut lease, &format!("INSERT INTO {table} VALUES {rows}")).await;
        }
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

/// The end of `asked` requests and of as many sessions, where none of as many ids may be known.
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
    changes.goodbyes = (0..asked).map(owner).collect();
    let asked_for = footprint(asked).requests;
    let known = known::<PostgresServer>(PostgresServer::NONE_EXIST, &asked_for.iter().collect());
    save::script(Script::of(known), &changes, &ids).unwrap()
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
        format!("{};{}", lock.text(), purge::delete(what, ids).text())
    });
    statements.join(";")
}

async fn run(lease: &mut Lease<PostgresServer>, statement: &str) -> Vec<PgRow> {
    let mut answers = lease.run(&Script::of(statement), "a plan").await.unwrap();
    answers.pop().unwrap()
}

/// The server of the environment variable. Without it, the test is skipped and says so, unless all
/// tests are required.
fn server() -> Option<String> {
    let variable = "LOCKHOUSE_TEST_POSTGRES_URL";
    let url = std::env::var(variable).ok();
    if url.is_none() {
        let all = std::env::var_os("LOCKHOUSE_TEST_FULL").is_some();
        assert!(!all, "{variable} is not set");
        let left_out = format!("left out a test of plans: {variable} is not set\n");
        std::io::stderr().write_all(left_out.as_bytes()).unwrap();
    }
    url
}
