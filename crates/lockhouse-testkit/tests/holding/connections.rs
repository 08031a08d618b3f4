//! The cost of a hold for the database.

use futures_util::future::try_join_all;
use lockhouse_testkit::place;
use sqlx::{Connection, MySqlConnection, PgConnection};

/// DistributedLock #27: each held lock kept a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_keeps_no_connection() {
    let Some(place) = place::mysql().await else {
        return;
    };
    let held = hold_many(&place).await;
    let mut connection = MySqlConnection::connect(place.url()).await.unwrap();
    let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()";
    let connections: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(connections < 30, "{connections} for {} holds", held.len());
    held.into_iter().for_each(|permit| drop(permit.forget()));
    place.clear().await;
}

/// DistributedLock #27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_keeps_no_connection_to_postgres() {
    let Some(place) = place::postgres().await else {
        return;
    };
    let held = hold_many(&place).await;
    let mut connection = PgConnection::connect(place.url()).await.unwrap();
    let count = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()";
    let connections: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(connections < 30, "{connections} for {} holds", held.len());
    held.into_iter().for_each(|permit| drop(permit.forget()));
    place.clear().await;
}

async fn hold_many(place: &place::Place) -> Vec<lockhouse::Permit> {
    let lockhouse = place.client().await;
    lockhouse.define("s", 300).await.unwrap();
    let semaphore = lockhouse.semaphore("s");
    let asks = (0..300).map(|_| semaphore.acquire());
    try_join_all(asks).await.unwrap()
}
