//! The tower layer over a gate in a database, which any number of servers share.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{Request, Response};
use lockhouse_gate::http::FenceLayer;
use lockhouse_gate::{Fence, Gate, Refused, SqlDialect, sql};
use lockhouse_testkit::place::{self, Place};
use sqlx::{MySqlPool, PgPool};
use tokio::sync::Notify;
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn};

macro_rules! sql_gates {
    ($($gate:ident: $pool:ident, $database:ident, $servers:ident;)+) => {$(
        /// Keeps the fences in a table. A pass is the transaction that has its row locked.
        #[derive(Clone)]
        struct $gate($pool, SqlDialect);

        impl Gate for $gate {
            type Pass = sqlx::Transaction<'static, sqlx::$database>;
            type Error = sqlx::Error;

            async fn pass(&self, fence: &Fence) -> Result<Self::Pass, Refused<sqlx::Error>> {
                let mut transaction = self.0.begin().await.map_err(Refused::Failed)?;
                let passed = sqlx::query(sql::pass(self.1))
                    .bind(&fence.resource)
                    .bind(i64::from(fence.slot))
                    .bind(fence.fence as i64)
                    .execute(&mut *transaction)
                    .await;
                match passed {
                    Ok(_) => Ok(transaction),
                    Err(error) if sql::is_stale(&error.to_string()) => Err(Refused::Stale),
                    Err(error) => Err(Refused::Failed(error)),
                }
            }

            async fn end(&self, pass: Self::Pass) -> Result<(), sqlx::Error> {
                pass.commit().await
            }
        }

        async fn $servers(place: Place, dialect: SqlDialect) {
            let pool = $pool::connect(place.url()).await.unwrap();
            sqlx::query(sql::create_table(dialect)).execute(&pool).await.unwrap();
            two_servers($gate(pool.clone(), dialect), $gate(pool, dialect)).await;
            place.clear().await;
        }
    )+};
}

sql_gates! {
    MySqlGate: MySqlPool, MySql, two_mysql_servers;
    PgGate: PgPool, Postgres, two_postgres_servers;
}

#[tokio::test]
async fn two_servers_share_a_gate_in_mysql() {
    if let Some(place) = place::mysql().await {
        two_mysql_servers(place, SqlDialect::MySql).await;
    }
}

#[tokio::test]
async fn two_servers_share_a_gate_in_mariadb() {
    if let Some(place) = place::mariadb().await {
        two_mysql_servers(place, SqlDialect::MariaDb).await;
    }
}

#[tokio::test]
async fn two_servers_share_a_gate_in_postgres() {
    if let Some(place) = place::postgres().await {
        two_postgres_servers(place, SqlDialect::Postgres).await;
    }
}

/// The fence of the writer that waits to be told to go on.
const SLOW: u64 = 7;

/// A slow writer at one server is not overtaken at the other, and then its successor has the last word.
async fn two_servers<G: Gate>(one: G, other: G) {
    let written = Arc::<Mutex<Vec<u64>>>::default();
    let (entered, released) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (notes, enters, may_go) = (written.clone(), entered.clone(), released.clone());
    let write = service_fn(move |request: Request<u64>| {
        let (notes, enters, may_go) = (notes.clone(), enters.clone(), may_go.clone());
        async move {
            let is_slow = *request.body() == SLOW;
            if is_slow {
                enters.notify_one();
                may_go.notified().await;
            }
            notes.lock().unwrap().push(*request.body());
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let one = FenceLayer::new("report", one).layer(write.clone());
    let other = FenceLayer::new("report", other).layer(write);
    let request = |fence: u64| {
        let request = Request::put("/").header("lockhouse-fence", format!("report;0;{fence}"));
        request.body(fence).unwrap()
    };
    let slow = tokio::spawn(one.clone().oneshot(request(SLOW)));
    entered.notified().await;
    let mut next = pin!(other.oneshot(request(SLOW + 1)));
    timeout(Duration::from_millis(500), &mut next)
        .await
        .unwrap_err();
    released.notify_one();
    assert_eq!(slow.await.unwrap().unwrap().status(), 200);
    assert_eq!(next.await.unwrap().status(), 200);
    for (fence, status) in [(SLOW, 412), (8, 200), (6, 412), (9, 200)] {
        let answer = one.clone().oneshot(request(fence)).await.unwrap();
        assert_eq!(answer.status(), status, "{fence}");
    }
    assert_eq!(*written.lock().unwrap(), [SLOW, 8, 8, 9]);
}
