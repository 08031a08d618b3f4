//! A store that is out: what callers are told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::access::made;
use crate::contract::Contract;
use crate::server::{Server, until};

use lockhouse::{Lockhouse, Upkeep, UpkeepState};
use lockhouse_core::Outcome;
use lockhouse_core::store::{Batch, Call, Error, FullStore, Kind, Layer, Store};
use lockhouse_server::{Options, StoreMetrics};
use lockhouse_stores::Memory;
use tokio::task::JoinSet;

#[derive(Debug, Default)]
struct Unreliable {
    memory: Memory,
    trouble: Mutex<Option<Kind>>,
    /// Its listings of semaphores never end.
    listings_hang: bool,
    calls: AtomicUsize,
}

impl Unreliable {
    fn has(&self, trouble: Option<Kind>) {
        *self.trouble.lock().unwrap() = trouble;
    }

    fn check(&self) -> Result<(), Error> {
        match *self.trouble.lock().unwrap() {
            Some(kind) => Err(Error::new(kind, "the store has trouble")),
            None => Ok(()),
        }
    }
}

impl Layer for Unreliable {
    fn inner(&self) -> &dyn FullStore {
        &self.memory
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.check()?;
        match call {
            Call::Semaphores if self.listings_hang => std::future::pending().await,
            _ => answer.await,
        }
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        self.check()?;
        self.memory.transact(batch).await
    }
}

const ASK: &str = r#"{"permits":[{"semaphore":"a"}]}"#;

/// A store's line takes 66 listings.
#[tokio::test]
async fn too_many_listings_are_no_outage_of_the_store() {
    let store = Arc::new(Unreliable {
        listings_hang: true,
        ..Unreliable::default()
    });
    let server = Arc::new(Server::on(Lockhouse::with_store(store)).await);
    let mut listings = JoinSet::new();
    for _ in 0..100 {
        let server = Arc::clone(&server);
        listings.spawn(async move { server.get("/v1/semaphores").await });
    }
    for _ in 0..34 {
        let refused = listings.join_next().await.unwrap().unwrap();
        refused.is_problem(503, "overloaded");
    }
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body);
    assert!(text.contains("\nlockhouse_store_reachable 1\n"), "{text}");
}

/// Where tokens are asked for, a stranger does not read what the store says, such as the name of its host.
#[tokio::test(start_paused = true)]
async fn strangers_do_not_read_the_errors_of_the_store() {
    let store = Arc::new(Unreliable::default());
    let lockhouse = Lockhouse::with_store(store.clone());
    made(&lockhouse, "ci", &["read:*"]).await;
    let server = Server::on(lockhouse).await;
    server.get("/v1/semaphores").await.is(401);
    let maintaining = server.lockhouse.maintain(Upkeep::default()).unwrap();
    store.has(Some(Kind::Unavailable));
    until("the upkeep fails", async || {
        matches!(server.lockhouse.upkeep_state(), UpkeepState::Failing(_))
    })
    .await;
    store.has(Some(Kind::Rejected));
    tokio::time::sleep(Duration::from_secs(60)).await;
    for path in ["/readyz", "/v1/semaphores"] {
        let answer = server.get(path).await;
        assert!(answer.status.is_server_error(), "{path}: {}", answer.status);
        let told = answer.json().to_string();
        assert!(!told.contains("has trouble"), "{path}: {told}");
    }
    store.has(None);
    maintaining.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_503_and_a_retry_succeeds() {
    let store = Arc::new(Unreliable::default());
    let server = Server::on(Lockhouse::with_store(store.clone())).await;
    server
        .put("/v1/semaphores/a", r#"{"capacity":1}"#)
        .await
        .is(201);
    store.has(Some(Kind::Unavailable));
    for answer in [
        server.put("/v1/requests/x", ASK).await,
        server.get("/v1/semaphores/a").await,
        server.get("/readyz").await,
    ] {
        let problem = answer.is_problem(503, "store_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(problem["maybe_applied"].is_null());
    }
    let answer = server.get("/readyz").await;
    Contract::read().holds("GET", "/readyz", &answer);
    server.get("/healthz").await.is(200);

    store.has(None);
    until("the server is ready", async || {
        server.get("/readyz").await.status == 200
    })
    .await;
    server.put("/v1/requests/x", ASK).await.is(201);
}

#[tokio::test(start_paused = true)]
async fn retries_are_counted_by_the_error_before() {
    let store = Arc::new(Unreliable::default());
    let (measured, metrics) = StoreMetrics::around(store.clone());
    let options = Options {
        store_metrics: Some(metrics),
        ..Options::default()
    };
    let server = Server::with(Lockhouse::with_store(measured), options).await;
    store.has(Some(Kind::Conflict));
    server.put("/v1/requests/x", ASK).await.is(503);
    store.has(None);
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = r#"lockhouse_store_retries_total{kind="conflict"} 3"#;
    assert!(text.lines().any(|found| found == line), "{text}");
}

/// Anybody may ask, as often as they like.
#[tokio::test(start_paused = true)]
async fn readiness_costs_the_store_one_call_a_second_however_often_it_is_asked() {
    let store = Arc::new(Unreliable::default());
    let server = Server::on(Lockhouse::with_store(store.clone())).await;
    for trouble in [None, Some(Kind::Unavailable)] {
        store.has(trouble);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = store.calls.load(Ordering::Relaxed);
        for _ in 0..100 {
            let ready = server.get("/readyz").await;
            ready.is(if trouble.is_some() { 503 } else { 200 });
        }
        let calls = store.calls.load(Ordering::Relaxed) - before;
        // The clock stands still unless all wait.
        assert!((1..=5).contains(&calls), "{calls} calls to the store");
    }
}

/// P9.
#[tokio::test(start_paused = true)]
async fn maybe_applied_is_reported() {
    let store = Arc::new(Unreliable::default());
    let server = Server::on(Lockhouse::with_store(store.clone())).await;
    store.has(Some(Kind::Unknown));
    let answer = server.put("/v1/semaphores/a", r#"{"capacity":1}"#).await;
    assert_eq!(
        answer.is_problem(503, "store_unavailable")["maybe_applied"],
        true
    );
    let error = server.client().await.define("a", 1).await.unwrap_err();
    assert!(error.maybe_applied(), "{error:?}");
}

#[tokio::test]
async fn a_rejection_by_the_store_is_an_internal_error() {
    let store = Arc::new(Unreliable::default());
    let server = Server::on(Lockhouse::with_store(store.clone())).await;
    store.has(Some(Kind::Rejected));
    let answer = server.get("/v1/semaphores/a").await;
    answer.is_problem(500, "internal");
    Contract::read().holds("GET", "/v1/semaphores/{name}", &answer);
    assert_eq!(answer.header("retry-after"), None);
}
