//! A flood of calls by one token, and what it leaves to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lockhouse::{Lockhouse, Secret};
use lockhouse_server::Options;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::access::made;
use crate::server::Server;
use crate::slow_store::SlowStore;

/// The store answers 200 calls a second.
const AT_ONCE: usize = 4;
const TAKES: Duration = Duration::from_millis(20);

/// How many calls may be under way: 60 ms of the store's work are those of one token.
const CALLS: usize = 16;

/// How many calls the flood has at a time: 5 s of the store's work.
const FLOOD: usize = 1_000;
const STREAMS: usize = 200;

/// The other token's calls: so many callers, each with a call so often.
const CALLERS: u32 = 4;
const EVERY: Duration = Duration::from_millis(500);
const TURNS: u32 = 12;

async fn connect(server: &Server) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Looks for a request, which costs the store a call.
async fn call(connection: &mut SendRequest<Full<Bytes>>, server: &Server, token: &Secret) {
    let request = Request::get(format!("{}/v1/requests/x", server.url()))
        .header("authorization", format!("Bearer {}", token.reveal()))
        .body(Full::default())
        .unwrap();
    let answer = connection.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body().collect().await.unwrap();
}

/// The clock is paused, and jumps ahead when nobody has anything to do: a machine under load changes nothing.
#[tokio::test(start_paused = true)]
async fn a_flood_of_calls_by_one_token_leaves_another_its_rate() {
    assert!(
        keeps_its_rate(CALLS).await,
        "the other token is slower than 0.8 of its rate"
    );
}

/// Without shares the store answers in the order of the calls, and the other token gets far less.
#[tokio::test(start_paused = true)]
async fn a_flood_takes_the_rate_of_others_where_all_calls_may_be_under_way() {
    assert!(!keeps_its_rate(100 * FLOOD).await, "the flood is none");
}

/// A store that hangs keeps them all under way.
#[tokio::test(start_paused = true)]
async fn a_token_has_so_many_listings_at_once_and_another_has_its_own() {
    let store = Arc::new(SlowStore::new(AT_ONCE, Duration::ZERO));
    let lockhouse = Lockhouse::with_store(store.clone());
    let greedy = made(&lockhouse, "greedy", &["read:*"]).await;
    let modest = made(&lockhouse, "modest", &["read:*"]).await;
    let server = Arc::new(Server::on(lockhouse).await);
    let list = |token: &Secret| {
        let (server, token) = (Arc::clone(&server), token.clone());
        async move {
            let call = Request::get("/v1/semaphores");
            let call = call.header("authorization", format!("Bearer {}", token.reveal()));
            server.send(call, "").await
        }
    };
    list(&greedy).await.is(200);
    store.hang();
    let mut listings = JoinSet::new();
    for _ in 0..16 {
        listings.spawn(list(&greedy));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refused = timeout(Duration::from_secs(1), list(&greedy))
        .await
        .unwrap();
    refused.is_problem(503, "overloaded");
    let waits = timeout(Duration::from_secs(1), list(&modest)).await;
    assert!(waits.is_err(), "{:?}", waits.unwrap().status);
    let metrics = Request::get("/v1/requests/x");
    let metrics = metrics.header("authorization", format!("Bearer {}", greedy.reveal()));
    let looks = timeout(Duration::from_secs(1), server.send(metrics, "")).await;
    assert!(
        looks.is_err(),
        "it is no listing: {:?}",
        looks.unwrap().status
    );
}

/// Whether another token has 0.8 of its rate beside a flood, where `calls` may be under way.
async fn keeps_its_rate(calls: usize) -> bool {
    let store = Arc::new(SlowStore::new(AT_ONCE, TAKES));
    let lockhouse = Lockhouse::with_store(store);
    lockhouse.define("s", 1).await.unwrap();
    let held = lockhouse.request_with_id("x").permits("s", 1);
    let held = held.ttl(Duration::from_secs(3_600)).acquire().await;
    held.unwrap().forget();
    let greedy = made(&lockhouse, "greedy", &["read:*"]).await;
    let modest = made(&lockhouse, "modest", &["read:*"]).await;
    let options = Options {
        calls,
        ..Options::default()
    };
    let server = Arc::new(Server::with(lockhouse, options).await);
    let served = Arc::new(AtomicUsize::new(0));
    let mut flood = JoinSet::new();
    for _ in 0..FLOOD / STREAMS {
        let connection = connect(&server).await;
        for _ in 0..STREAMS {
            let (mut connection, server) = (connection.clone(), Arc::clone(&server));
            let (token, served) = (greedy.clone(), Arc::clone(&served));
            flood.spawn(async move {
                loop {
                    call(&mut connection, &server, &token).await;
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    // The flood is under way.
    tokio::time::sleep(2 * TAKES).await;
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let mut connection = connect(&server).await;
        let (server, token) = (Arc::clone(&server), modest.clone());
        callers.spawn(async move {
            let mut turns = interval(EVERY);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for _ in 0..TURNS {
                turns.tick().await;
                call(&mut connection, &server, &token).await;
            }
        });
    }
    // At 0.8 of its rate.
    let in_time = EVERY * TURNS * 10 / 8;
    let all = timeout(in_time, callers.join_all()).await;
    // And the flood is served meanwhile: what is not used of a share is not lost.
    let (served, seconds) = (served.load(Ordering::Relaxed), begun.elapsed().as_secs());
    assert!(served as u64 > 100 * seconds, "{served} in {seconds} s");
    flood.shutdown().await;
    all.is_ok()
}
