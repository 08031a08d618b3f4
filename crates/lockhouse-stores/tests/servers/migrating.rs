//! A database of an older version, with live requests in it, goes on after it was migrated.

use std::time::Duration;

use lockhouse_core::EndReason;
use lockhouse_core::store::{Due, Kind};

use crate::database::{
    Database, acquire, define, granted, heartbeat, id, insist, name, on_mysql_and_mariadb, one,
    owner, release, semaphore,
};
use crate::session::Session;
use crate::upgrading;

on_mysql_and_mariadb! {
    a_database_of_version_1_goes_on_with_its_live_requests,
    a_process_of_version_1_is_refused_after_a_migration_and_leaves_nothing_torn,
    a_migration_that_comes_again_does_not_break_off_batches,
    a_migration_behind_a_long_transaction_keeps_others_waiting_for_2_s_at_most,
}

/// The schema as version 1 left it.
async fn version_1(database: &Database) -> Session {
    let collation = upgrading::collation(database);
    let mut session = database.session().await;
    let first = include_str!("../../src/mysql/migrations/0001_first.sql");
    session.run(&first.replace("{collation}", collation)).await;
    session
        .run("INSERT INTO lockhouse_schema_version VALUES (1,SYSDATE(6))")
        .await;
    session
}

async fn a_database_of_version_1_goes_on_with_its_live_requests(database: &Database) {
    let mut session = version_1(database).await;
    session
        .run(
            "INSERT INTO lockhouse_semaphore VALUES (7,'a',3,2,5,SYSDATE(6),SYSDATE(6),NULL); \
         INSERT INTO lockhouse_permit_request VALUES \
         (11,'live','o','ACQUIRED',NULL,NULL,NULL,UTC_TIMESTAMP(6),NULL),\
         (12,'lapsed',NULL,'ACQUIRED',NULL,1,'2020-01-01','2020-01-01',NULL),\
         (13,'over','o','RELEASED','expired',1,'2020-01-01','2020-01-01','2020-01-02'); \
         INSERT INTO lockhouse_permit VALUES \
         (11,7,1,5,'ACQUIRED'),(12,7,1,4,'ACQUIRED'),(13,7,1,3,'RELEASED'); \
         INSERT INTO lockhouse_capacity_change VALUES (1,7,2,3,NULL,NULL,'2020-01-01')",
        )
        .await;
    let store = database.store();
    assert_eq!(store.ready().await.unwrap_err().kind(), Kind::Schema);
    store.migrate().await.unwrap();
    store.ready().await.unwrap();

    assert!(store.recount().await.unwrap().findings().is_empty());
    let over = store.request(&id("over")).await.unwrap().unwrap();
    assert_eq!(over.end_reason(), Some(EndReason::Expired));
    assert_eq!(over.ended_by, None);
    let lapsed = store.due(Due::Lapsed { on: None }, 9).await.unwrap();
    assert_eq!(lapsed[0].external_id, id("lapsed"));
    let owned = store.due(Due::OwnedBy(&owner("o")), 9).await.unwrap();
    assert_eq!(owned[0].external_id, id("live"));
    assert_eq!(owned.len(), 1);
    assert_eq!(store.history(&name("a"), 9).await.unwrap().len(), 1);

    one(&store, release("lapsed")).await.unwrap().unwrap();
    one(&store, release("live")).await.unwrap().unwrap();
    one(&store, heartbeat("o", 1000)).await.unwrap().unwrap();
    let (request, _) = granted(one(&store, acquire("x", &["a"])).await.unwrap());
    assert_eq!(request.permits[0].fence, 6);
    assert_eq!(semaphore(&store, "a").await.in_use, 1);
}

/// With the SQL of version 1, since that is what may run elsewhere still. It does not know of all
/// that a request's row says now, so it must not write it.
async fn a_process_of_version_1_is_refused_after_a_migration_and_leaves_nothing_torn(
    database: &Database,
) {
    let mut session = version_1(database).await;
    session
        .run("INSERT INTO lockhouse_semaphore VALUES (1,'a',99,0,0,SYSDATE(6),SYSDATE(6),NULL)")
        .await;
    let clients = (1..=4_u64).map(|client| {
        let opened = database.session();
        async move {
            let mut session = opened.await;
            let (mut granted, mut held) = (0, 0);
            loop {
                let id = client << 32 | (granted + 1);
                if !succeeds(&mut session, &grant(id)).await {
                    return (granted, held);
                }
                (granted, held) = (granted + 1, 1);
                if !succeeds(&mut session, &release_of(id)).await {
                    return (granted, held);
                }
                held = 0;
            }
        }
    });
    let migrations = async {
        let migrations = (0..4).map(|_| {
            let store = database.store();
            tokio::spawn(async move { store.migrate().await })
        });
        for migration in migrations.collect::<Vec<_>>() {
            migration.await.unwrap().unwrap();
        }
    };
    let (_, counts) = tokio::join!(migrations, futures_util::future::join_all(clients));

    let store = database.store();
    assert!(store.recount().await.unwrap().findings().is_empty());
    let a = semaphore(&store, "a").await;
    let (granted, held) = counts
        .into_iter()
        .fold((0, 0), |(granted, held), (more, kept)| {
            (granted + more, held + kept)
        });
    assert_eq!((a.fence, u64::from(a.in_use)), (granted, held));
    assert!(granted > 0);
}

/// Whether the server took them. It may refuse them for a column only that is not there any more.
async fn succeeds(session: &mut Session, statements: &str) -> bool {
    let Err(error) = session.try_run(statements).await else {
        return true;
    };
    let unknown_column = error.as_database_error().and_then(|error| error.code());
    assert_eq!(unknown_column.as_deref(), Some("42S22"), "{error}");
    session.run("ROLLBACK").await;
    false
}

fn grant(id: u64) -> String {
    format!(
        "START TRANSACTION; SELECT * FROM lockhouse_semaphore WHERE name='a' FOR UPDATE; \
         INSERT INTO lockhouse_permit_request (id,external_id,owner,state,end_reason,ttl_ms,\
         expires_at,created_at,released_at) VALUES \
         ({id},'{id}','o','ACQUIRED',NULL,NULL,NULL,SYSDATE(6),NULL); \
         INSERT INTO lockhouse_permit (permit_request_id,semaphore_id,`count`,fence,state) \
         SELECT {id},id,1,fence+1,'ACQUIRED' FROM lockhouse_semaphore; \
         UPDATE lockhouse_semaphore SET in_use=in_use+1,fence=fence+1; COMMIT"
    )
}

fn release_of(id: u64) -> String {
    format!(
        "START TRANSACTION; SELECT * FROM lockhouse_semaphore WHERE name='a' FOR UPDATE; \
         UPDATE lockhouse_semaphore SET in_use=in_use-1; \
         UPDATE lockhouse_permit_request SET state='RELEASED',end_reason='released',\
         released_at=SYSDATE(6) WHERE id={id}; \
         UPDATE lockhouse_permit SET state='RELEASED' WHERE permit_request_id={id}; COMMIT"
    )
}

async fn a_migration_that_comes_again_does_not_break_off_batches(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 99)).await.unwrap().unwrap();
    let mut session = database.session().await;
    let tasks = (0..4).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..50 {
                let external_id = format!("{task}-{round}");
                granted(insist(&store, acquire(&external_id, &["a"])).await);
                insist(&store, release(&external_id)).await.unwrap();
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for _ in 0..3 {
        session
            .run("DELETE FROM lockhouse_schema_version WHERE version>1")
            .await;
        store.migrate().await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(semaphore(&store, "a").await.fence, 200);
}

async fn a_migration_behind_a_long_transaction_keeps_others_waiting_for_2_s_at_most(
    database: &Database,
) {
    let mut session = version_1(database).await;
    session
        .run("START TRANSACTION; SELECT * FROM lockhouse_permit_request")
        .await;
    let migration = tokio::spawn({
        let store = database.store();
        async move { store.migrate().await }
    });
    let mut observer = database.session().await;
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db='{}' \
         AND state LIKE 'Waiting for table metadata lock' AND info LIKE 'ALTER%'",
        database.name()
    );
    while observer.number(&waiting).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let others = observer.try_run("SELECT * FROM lockhouse_permit_request");
    let others = tokio::time::timeout(Duration::from_millis(3500), others).await;
    others.unwrap().unwrap();
    session.run("COMMIT").await;
    migration.await.unwrap().unwrap();
    database.store().ready().await.unwrap();
}
