//! The fenced writes of the examples, in time and too late.

use std::time::Duration;

use lockhouse::caller::{SqlDialect, held_sql};
use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName, Ttl};
use lockhouse_testkit::place;
use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection};
use tokio::time::timeout;

use crate::{fenced_mysql, fenced_postgres};

macro_rules! fenced {
    ($($store:ident: $example:ident, $connection:ident, $dialect:ident;)+) => {$(
        mod $store {
            use super::*;

            /// A place where the example has run, a client, and a connection.
            async fn house() -> Option<(place::Place, Lockhouse, $connection)> {
                let place = place::$store().await?;
                $example::run(place.url()).await.unwrap();
                let lockhouse = place.client().await;
                let database = $connection::connect(place.url()).await.unwrap();
                Some((place, lockhouse, database))
            }

            async fn balance(database: &mut $connection) -> i64 {
                let balance = "SELECT balance FROM account WHERE id = 1";
                sqlx::query_scalar(balance).fetch_one(database).await.unwrap()
            }

            #[tokio::test]
            async fn only_a_current_holder_writes() {
                let Some((place, lockhouse, mut database)) = house().await else {
                    return;
                };
                assert_eq!(balance(&mut database).await, 10);
                let tellers = lockhouse.semaphore("tellers");
                let first = tellers.acquire().await.unwrap();
                let second = tellers.acquire().await.unwrap();
                lockhouse.force_release(second.external_id(), None).await.unwrap();
                for (teller, done) in [(&first, true), (&second, false), (&first, true)] {
                    let id = teller.external_id();
                    let deposit = $example::deposit(&mut database, id, 1, 10).await;
                    assert_eq!(deposit.is_ok(), done, "{deposit:?}");
                }
                assert_eq!(balance(&mut database).await, 30, "despite the lower fence");
                first.release().await.unwrap();
                place.clear().await;
            }

            /// The TTL has passed, and a waiter wants the permit.
            #[tokio::test]
            async fn permits_a_writer_found_held_are_not_granted_until_it_commits() {
                let Some((place, lockhouse, mut database)) = house().await else {
                    return;
                };
                lockhouse.define("tellers", 1).await.unwrap();
                let brief = ask("writer", Some(BRIEF));
                let (request, _) = lockhouse.acquire(brief, SOON).await.unwrap();
                database.execute("BEGIN").await.unwrap();
                let held = sqlx::query(held_sql(SqlDialect::$dialect))
                    .bind(request.external_id.as_str())
                    .execute(&mut database);
                held.await.unwrap();
                let mut next = tokio::spawn({
                    let lockhouse = lockhouse.clone();
                    async move { lockhouse.acquire(ask("next", None), SOON).await }
                });
                timeout(3 * BRIEF, &mut next).await.unwrap_err();
                database.execute("COMMIT").await.unwrap();
                let (next, _) = timeout(SOON, next).await.unwrap().unwrap().unwrap();
                assert!(next.permits[0].fence > request.permits[0].fence);
                let late = $example::deposit(&mut database, &request.external_id, 1, 10);
                let late = late.await.unwrap_err().to_string();
                assert!(late.contains("lockhouse_not_held"), "{late}");
                // The connection would roll back before its next statement, but there is none.
                database.close().await.unwrap();
                place.clear().await;
            }

            #[tokio::test]
            async fn a_write_with_an_older_fence_is_refused() {
                let Some((place, lockhouse, mut database)) = house().await else {
                    return;
                };
                let editor = lockhouse.mutex("editor");
                let slow = editor.lock().await.unwrap();
                lockhouse.force_release(slow.external_id(), None).await.unwrap();
                let quick = editor.lock().await.unwrap();
                let writes = [(&slow, true), (&quick, true), (&slow, false), (&quick, true)];
                for (permit, done) in writes {
                    let fence = permit.fence("editor");
                    let publish = $example::publish(&mut database, fence, "news").await;
                    assert_eq!(publish.unwrap(), done);
                }
                quick.release().await.unwrap();
                place.clear().await;
            }
        }
    )+};
}

fenced! {
    mysql: fenced_mysql, MySqlConnection, MySql;
    mariadb: fenced_mysql, MySqlConnection, MariaDb;
    postgres: fenced_postgres, PgConnection, Postgres;
}

const SOON: Duration = Duration::from_secs(20);
const BRIEF: Duration = Duration::from_millis(400);

/// An ask for the only teller.
fn ask(id: &str, ttl: Option<Duration>) -> Ask {
    let permit = (SemaphoreName::parse("tellers").unwrap(), Count::ONE);
    let mut ask = Ask::new(ExternalId::parse(id).unwrap(), [permit]).unwrap();
    ask.ttl = ttl.map(|ttl| Ttl::new(ttl).unwrap());
    ask
}
