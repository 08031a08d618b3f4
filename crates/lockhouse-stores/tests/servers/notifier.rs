//! PostgreSQL notifies processes that wait of permits that other processes release, and no others.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::store::Batch;
use lockhouse_core::{ProcessId, SemaphoreName};
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use crate::database::{Database, Served, acquire, define, granted, name, on_server, one, release};
use crate::session::Session;

on_server! { on_postgres, Postgres;
    releases_notify_only_if_another_process_waits,
    permits_granted_on_in_the_same_batch_notify_nobody,
    a_listener_that_is_cut_off_listens_again,
    a_store_that_is_gone_listens_no_more,
    a_listener_costs_one_connection,
}

const SOON: Duration = Duration::from_secs(20);

/// Listening processes hold these locks, others don't.
const LISTENERS: &str = "SELECT COUNT(DISTINCT pid) FROM pg_locks \
    WHERE locktype='advisory' AND granted AND mode='ShareLock' \
    AND database=(SELECT oid FROM pg_database WHERE datname=current_database())";

fn on(names: &[&str]) -> BTreeSet<SemaphoreName> {
    names.iter().map(|text| name(text)).collect()
}

async fn notified(store: &Served, on: &BTreeSet<SemaphoreName>) -> BTreeSet<SemaphoreName> {
    timeout(SOON, store.changed(on, ProcessId::new(1)))
        .await
        .expect("a notification")
}

/// A store that waits for `names`, and was notified once of the changes before.
async fn waiting(database: &Database, names: &[&str]) -> (Served, BTreeSet<SemaphoreName>) {
    let (store, on) = (database.store(), on(names));
    let mut told = BTreeSet::new();
    while told != on {
        told.extend(notified(&store, &on).await);
    }
    (store, on)
}

async fn until(session: &mut Session, query: &str, number: u64) {
    timeout(SOON, async {
        while session.number(query).await != number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect(query);
}

/// A listener to all notifications of the database.
async fn observer(database: &Database) -> PgListener {
    let url = database.url(database.admin(), database.address(), "");
    let url = url.trim_end_matches('?');
    let mut observer = PgListener::connect(url).await.unwrap();
    observer.listen("lockhouse").await.unwrap();
    observer
}

/// How many notifications came until now.
async fn told(observer: &mut PgListener, session: &mut Session) -> usize {
    session.run("NOTIFY lockhouse,'until now'").await;
    let mut told = 0;
    while observer.recv().await.unwrap().payload() != "until now" {
        told += 1;
    }
    told
}

/// A notification is expensive for the server. It names what was released.
async fn releases_notify_only_if_another_process_waits(database: &Database) {
    let store = database.migrated().await;
    let (mut observer, mut session) = (observer(database).await, database.session().await);
    for called in ["a", "b"] {
        one(&store, define(called, 1)).await.unwrap().unwrap();
    }
    for round in ["1", "2"] {
        granted(one(&store, acquire(round, &["a", "b"])).await.unwrap());
        one(&store, release(round)).await.unwrap().unwrap();
    }
    assert_eq!(told(&mut observer, &mut session).await, 0);
    let (waits, both) = waiting(database, &["a", "c"]).await;
    granted(one(&store, acquire("3", &["a", "b"])).await.unwrap());
    assert_eq!(told(&mut observer, &mut session).await, 0);
    one(&store, release("3")).await.unwrap().unwrap();
    assert_eq!(told(&mut observer, &mut session).await, 1);
    assert_eq!(notified(&waits, &both).await, on(&["a"]));
}

/// Nor does a release that leaves less room than there was.
async fn permits_granted_on_in_the_same_batch_notify_nobody(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    granted(one(&store, acquire("0", &["a"])).await.unwrap());
    let _waits = waiting(database, &["a"]).await;
    let (mut observer, mut session) = (observer(database).await, database.session().await);
    for round in 0..5 {
        let handed_on = vec![
            release(round.to_string()),
            acquire((round + 1).to_string(), &["a"]),
        ];
        let outcomes = store.transact(&Batch::new(handed_on)).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok));
    }
    assert_eq!(told(&mut observer, &mut session).await, 0);
}

async fn a_listener_that_is_cut_off_listens_again(database: &Database) {
    let other = database.migrated().await;
    one(&other, define("a", 1)).await.unwrap().unwrap();
    granted(one(&other, acquire("x", &["a"])).await.unwrap());
    let (waits, a) = waiting(database, &["a"]).await;
    let mut session = database.session().await;
    let cut = LISTENERS.replace("COUNT(DISTINCT pid)", "pg_terminate_backend(pid)");
    session.run(&cut).await;
    assert_eq!(
        notified(&waits, &a).await,
        a,
        "what came back meanwhile is looked for"
    );
    until(&mut session, LISTENERS, 1).await;
    one(&other, release("x")).await.unwrap().unwrap();
    assert_eq!(notified(&waits, &a).await, a);
}

async fn a_store_that_is_gone_listens_no_more(database: &Database) {
    database.migrated().await;
    let mut session = database.session().await;
    let waits = waiting(database, &["a"]).await;
    assert_eq!(session.number(LISTENERS).await, 1);
    drop(waits);
    until(&mut session, LISTENERS, 0).await;
}

async fn a_listener_costs_one_connection(database: &Database) {
    database.migrated().await;
    let mut session = database.session().await;
    let names: Vec<_> = (0..600).map(|i| format!("semaphore-{i}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let _waits = waiting(database, &names).await;
    assert_eq!(session.number(LISTENERS).await, 1);
    let locks = LISTENERS.replace("DISTINCT pid", "*");
    let locks = session.number(&locks).await;
    assert!((200..=256).contains(&locks), "{locks} for 600 semaphores");
}
