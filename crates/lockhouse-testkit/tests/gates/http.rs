//! The tower layer over a gate in a database that several servers share.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{Request, Response};
use lockhouse::Permit;
use lockhouse_gate::http::FenceLayer;
use lockhouse_gate::{Fence, Gate, MemoryGate, Refused, SqlDialect, sql};
use lockhouse_testkit::place::{self, Place};
use sqlx::{MySqlPool, PgPool};
use tokio::sync::Notify;
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn};

macro_rules! sql_gates {
    ($($gate:ident: $pool:ident, $database:ident, $servers:ident;)+) => {$(
        /// A gate with its fences in a table. A pass is a transaction that has its row locked.
        #[derive(Clone)]
        struct $gate($pool, SqlDialect);

        impl Gate for $gate {
            type Pass = sqlx::Transaction<'static, sqlx::$database>;
            type Error = sqlx::Error;

            /// The fence is committed first, so that it stays if the pass is dropped after the write.
            async fn pass(&self, fence: &Fence) -> Result<Self::Pass, Refused<sqlx::Error>> {
                let recorded = self.run(fence).await?;
                recorded.commit().await.map_err(Refused::Failed)?;
                self.run(fence).await
            }

            async fn end(&self, pass: Self::Pass) -> Result<(), sqlx::Error> {
                pass.commit().await
            }
        }

        impl $gate {
            async fn run(
                &self,
                fence: &Fence,
            ) -> Result<sqlx::Transaction<'static, sqlx::$database>, Refused<sqlx::Error>> {
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
        }

        async fn $servers(place: Place, dialect: SqlDialect) {
            let pool = $pool::connect(place.url()).await.unwrap();
            sqlx::query(sql::create_table(dialect)).execute(&pool).await.unwrap();
            two_servers($gate(pool.clone(), dialect), $gate(pool.clone(), dialect)).await;
            aborted_after_its_write($gate(pool, dialect)).await;
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

/// How long a paused writer holds its permit.
const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_writer_paused_past_its_ttl_is_answered_412_at_capacity_1() {
    paused_past_its_ttl(1).await;
}

#[tokio::test]
async fn a_writer_paused_past_its_ttl_is_answered_412_at_capacity_4() {
    paused_past_its_ttl(4).await;
}

/// Each live holder writes, the newest first. Only the holder whose TTL has passed is refused.
async fn paused_past_its_ttl(capacity: u32) {
    let place = place::sqlite().await.unwrap();
    let lockhouse = place.client().await;
    lockhouse.define("gpu", capacity).slots().await.unwrap();
    let written = Arc::<Mutex<Vec<String>>>::default();
    let notes = written.clone();
    let write = service_fn(move |request: Request<String>| {
        notes.lock().unwrap().push(request.into_body());
        async { Ok::<_, Infallible>(Response::new(String::new())) }
    });
    let service = FenceLayer::new("gpu", MemoryGate::default()).layer(write);
    let send = async |fence: &str, text: &str| {
        let request = Request::put("/").header("lockhouse-fence", fence);
        let request = request.body(text.to_owned()).unwrap();
        service.clone().oneshot(request).await.unwrap().status()
    };
    let header =
        |permit: &Permit| format!("gpu;{};{}", permit.slots("gpu")[0], permit.fence("gpu"));
    let request = lockhouse.request().permits("gpu", 1).ttl(TTL);
    let paused = request.acquire().await.unwrap();
    let stale = header(&paused);
    paused.forget();
    assert_eq!(send(&stale, "in time").await, 200);
    // The last holder is granted the slot that the paused holder has lost.
    let mut holders = Vec::new();
    for _ in 0..capacity {
        holders.push(lockhouse.semaphore("gpu").acquire().await.unwrap());
    }
    for holder in holders.iter().rev() {
        assert_eq!(send(&header(holder), "a holder").await, 200);
    }
    assert_eq!(send(&stale, "late").await, 412);
    let mut expected = vec!["in time"];
    expected.extend(holders.iter().map(|_| "a holder"));
    assert_eq!(*written.lock().unwrap(), expected);
    drop(holders);
    drop(lockhouse);
    place.clear().await;
}

/// The fence of the writer that waits for a signal.
const SLOW: u64 = 7;

/// A slow writer at one server is not overtaken at the other. Its successor writes last.
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

#[tokio::test]
async fn a_fence_is_recorded_although_its_writer_is_aborted() {
    aborted_after_its_write(MemoryGate::default()).await;
}

/// A writer writes, and its caller hangs up before the service has answered.
async fn aborted_after_its_write<G: Gate>(gate: G) {
    let written = Arc::new(Notify::new());
    let notes = written.clone();
    let write = service_fn(move |request: Request<bool>| {
        notes.notify_one();
        async move {
            if *request.body() {
                pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let service = FenceLayer::new("aborted", gate).layer(write);
    let request = |fence: u64, is_aborted: bool| {
        let request = Request::put("/").header("lockhouse-fence", format!("aborted;0;{fence}"));
        request.body(is_aborted).unwrap()
    };
    let aborted = tokio::spawn(service.clone().oneshot(request(8, true)));
    written.notified().await;
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    for (fence, status) in [(7, 412), (8, 200)] {
        let answer = service
            .clone()
            .oneshot(request(fence, false))
            .await
            .unwrap();
        assert_eq!(answer.status(), status, "{fence}");
    }
}
