//! Lockhouse in a transaction of the caller: *held* and *finish*, on every store that takes SQL.

#![allow(clippy::unwrap_used)]

mod drivers;
mod finish;
mod held;
mod http;
mod processes;
mod slow;

use std::time::Duration;

use lockhouse::caller::{SqlDialect, finish_sql, held_sql};
use lockhouse::{Error, Lockhouse, Refusal, Request};
use lockhouse_testkit::database::{Database, Value};
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(20);

/// A connection of an application to the database that has Lockhouse's tables.
struct Caller {
    database: Database,
    dialect: SqlDialect,
}

impl Caller {
    async fn open(place: &Place) -> Self {
        let mut database = Database::open(place.url()).await;
        let dialect = database.dialect().await;
        Self { database, dialect }
    }

    async fn begin(&mut self) {
        self.database.begin().await;
    }

    async fn commit(&mut self) {
        self.database.run("COMMIT").await;
    }

    async fn roll_back(&mut self) {
        self.database.run("ROLLBACK").await;
    }

    async fn held(&mut self, id: &str) -> bool {
        self.run(held_sql(self.dialect), id).await
    }

    async fn finish(&mut self, id: &str) -> bool {
        self.run(finish_sql(self.dialect), id).await
    }

    async fn run(&mut self, sql: &str, id: &str) -> bool {
        match self.database.execute(sql, &[Value::Text(id)]).await {
            Ok(1) => true,
            Ok(rows) => panic!("{rows} rows of {id}"),
            // On PostgreSQL a transaction refuses all statements after an error.
            Err(error) => {
                assert!(error.contains("lockhouse_not_held"), "{error}");
                false
            }
        }
    }

    /// Runs *held* in a separate transaction.
    async fn is_held(&mut self, id: &str) -> bool {
        self.begin().await;
        let held = self.held(id).await;
        self.roll_back().await;
        held
    }
}

/// A request that nobody renews, on one permit of `semaphore`.
async fn granted(lockhouse: &Lockhouse, semaphore: &str, id: &str, ttl: Duration) -> Request {
    let request = lockhouse.request_with_id(id).permits(semaphore, 1).ttl(ttl);
    let permit = request.acquire().await.unwrap();
    let request = permit.request().clone();
    permit.forget();
    request
}

/// Waits until the TTL has passed. No command ends the request.
async fn pass(ttl: Duration) {
    sleep(ttl + Duration::from_millis(100)).await;
}

fn end_reason(refused: Result<impl std::fmt::Debug, Error>) -> lockhouse::EndReason {
    match refused.unwrap_err() {
        Error::Refused(Refusal::RequestEnded { reason, .. }) => reason,
        other => panic!("{other}"),
    }
}

/// The answer of `call`, and how long it took.
async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    let answer = call.await;
    (answer, began.elapsed())
}
