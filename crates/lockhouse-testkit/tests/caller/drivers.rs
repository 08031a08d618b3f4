//! *held* and *finish* through the functions for sqlx 0.8, sqlx 0.9 and tokio-postgres.

use lockhouse::caller::Error;
use lockhouse::{EndReason, Lockhouse, Permit};
use lockhouse_testkit::place::{self, Place};
use tokio_postgres::NoTls;

/// Creates a semaphore of two permits, and acquires both.
async fn two(place: &Place) -> (Lockhouse, Permit, Permit) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let semaphore = lockhouse.semaphore("s");
    let one = semaphore.acquire().await.unwrap();
    let two = semaphore.acquire().await.unwrap();
    (lockhouse, one, two)
}

/// Checks the requests after `kept` was finished and rolled back, and `finished` was finished and committed.
async fn ends(lockhouse: Lockhouse, kept: Permit, finished: Permit, place: Place) {
    assert!(kept.release().await.unwrap().now);
    let released = finished.release().await.unwrap();
    assert_eq!(released.request.end_reason(), Some(EndReason::Released));
    assert!(!released.now);
    drop(lockhouse);
    place.clear().await;
}

fn not_held<E: std::error::Error + 'static>(answer: Result<(), Error<E>>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::NotHeld { .. }), "{error:?}");
    assert!(error.to_string().contains("is not held"), "{error}");
}

macro_rules! by_sqlx {
    ($($module:ident: $sqlx:ident, $connection:ident;)+) => {$(
        mod $module {
            use $sqlx::{$connection, Connection as _};

            use super::*;

            pub(super) async fn finishes(place: Place) {
                let (lockhouse, kept, finished) = two(&place).await;
                let mut database = $connection::connect(place.url()).await.unwrap();
                let mut transaction = database.begin().await.unwrap();
                kept.held_in(&mut transaction).await.unwrap();
                kept.finish_in(&mut transaction).await.unwrap();
                not_held(kept.held_in(&mut transaction).await);
                transaction.rollback().await.unwrap();
                let mut transaction = database.begin().await.unwrap();
                finished.finish_in(&mut transaction).await.unwrap();
                transaction.commit().await.unwrap();
                let mut transaction = database.begin().await.unwrap();
                not_held(finished.finish_in(&mut transaction).await);
                transaction.rollback().await.unwrap();
                ends(lockhouse, kept, finished, place).await;
            }
        }
    )+};
}

by_sqlx! {
    mysql_8: sqlx, MySqlConnection;
    postgres_8: sqlx, PgConnection;
    mysql_9: sqlx_0_9, MySqlConnection;
    postgres_9: sqlx_0_9, PgConnection;
}

#[tokio::test]
async fn a_transaction_of_sqlx_0_8_finishes_with_its_commit() {
    let places = [place::mysql().await, place::mariadb().await];
    for place in places.into_iter().flatten() {
        mysql_8::finishes(place).await;
    }
    if let Some(place) = place::postgres().await {
        postgres_8::finishes(place).await;
    }
}

#[tokio::test]
async fn a_transaction_of_sqlx_0_9_finishes_with_its_commit() {
    let places = [place::mysql().await, place::mariadb().await];
    for place in places.into_iter().flatten() {
        mysql_9::finishes(place).await;
    }
    if let Some(place) = place::postgres().await {
        postgres_9::finishes(place).await;
    }
}

#[tokio::test]
async fn a_transaction_of_tokio_postgres_finishes_with_its_commit() {
    let Some(place) = place::postgres().await else {
        return;
    };
    let (lockhouse, kept, finished) = two(&place).await;
    let connected = tokio_postgres::connect(place.url(), NoTls).await;
    let (mut database, connection) = connected.unwrap();
    tokio::spawn(connection);
    let mut transaction = database.transaction().await.unwrap();
    kept.held_in(&mut transaction).await.unwrap();
    kept.finish_in(&mut transaction).await.unwrap();
    not_held(kept.held_in(&mut transaction).await);
    // The error is about the aborted transaction, and not about the request.
    let aborted = kept.held_in(&mut transaction).await.unwrap_err();
    assert!(matches!(aborted, Error::Driver(_)), "{aborted:?}");
    transaction.rollback().await.unwrap();
    let mut transaction = database.transaction().await.unwrap();
    finished.finish_in(&mut transaction).await.unwrap();
    transaction.commit().await.unwrap();
    let mut transaction = database.transaction().await.unwrap();
    not_held(finished.finish_in(&mut transaction).await);
    transaction.rollback().await.unwrap();
    drop(database);
    ends(lockhouse, kept, finished, place).await;
}
