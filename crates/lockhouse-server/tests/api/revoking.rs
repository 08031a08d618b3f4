//! Tokens that end: everywhere within 10 s, on open connections, in sessions and for calls that wait.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lockhouse::{Lockhouse, Secret, Timestamp};
use lockhouse_server::Options;
use lockhouse_stores::Memory;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::access::{Guarded, made};
use crate::server::{Answer, Server, until};
use crate::slow_store::SlowStore;

/// So soon all servers obey.
const SOON: Duration = Duration::from_secs(10);

const WAIT: &str = r#"{"permits":[{"semaphore":"s"}],"wait_ms":600000}"#;

/// A call that waits for `s`, which is full, with `token`.
async fn waiter(server: &Arc<Server>, token: &Secret) -> JoinHandle<Answer> {
    let request = Request::put("/v1/requests/waits");
    let request = request.header("authorization", format!("Bearer {}", token.reveal()));
    let called = Arc::clone(server);
    let waiter = tokio::spawn(async move { called.send_patiently(request, WAIT).await });
    until("it waits", async || server.waiting("s").await == 1).await;
    waiter
}

/// `s` is full from now on.
async fn fill(lockhouse: &Lockhouse) {
    lockhouse.define("s", 1).await.unwrap();
    let ask = lockhouse.request_with_id("holds").permits("s", 1);
    let held = ask.ttl(Duration::from_secs(3_600)).acquire().await;
    held.unwrap().forget();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_leaves_the_line_while_the_store_hangs() {
    let store = Arc::new(SlowStore::new(100, Duration::ZERO));
    let lockhouse = Lockhouse::with_store(store.clone());
    fill(&lockhouse).await;
    let token = made(&lockhouse, "ci", &["hold:*"]).await;
    let server = Arc::new(Server::on(lockhouse).await);
    let waiter = waiter(&server, &token).await;
    // The token may be revoked in this moment, and the server can't see it.
    store.hang();
    let hangs_since = Instant::now();
    let refused = waiter.await.unwrap();
    refused.is_problem(503, "store_unavailable");
    let took = hangs_since.elapsed();
    assert!(took <= SOON, "{took:?}");
}

/// The caller asked again at another server, which granted it (ADR 7).
#[tokio::test(start_paused = true)]
async fn a_grant_of_another_server_stays_though_the_tokens_cannot_be_read() {
    let store = Arc::new(SlowStore::new(100, Duration::ZERO));
    let [lockhouse, other] = [(); 2].map(|()| Lockhouse::with_store(store.clone()));
    fill(&lockhouse).await;
    let server = Arc::new(Server::on(lockhouse).await);
    let called = Arc::clone(&server);
    let call = Request::put("/v1/requests/waits");
    let waiter = tokio::spawn(async move { called.send_patiently(call, WAIT).await });
    until("it waits", async || server.waiting("s").await == 1).await;
    store.hang();
    sleep(Duration::from_secs(4)).await;
    store.go_on();
    other.release("holds").await.unwrap();
    let ask = other.request_with_id("waits").permits("s", 1);
    ask.acquire().await.unwrap().forget();
    waiter.await.unwrap().is_problem(503, "store_unavailable");
    sleep(Duration::from_secs(30)).await;
    let granted = other.find("waits").await.unwrap();
    assert!(granted.is_live(), "{:?}", granted.end_reason());
}

/// It was good when the head of the call came.
#[tokio::test]
async fn a_call_of_a_token_that_is_revoked_before_its_body_came_does_nothing() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    let token = made(&lockhouse, "slow", &["define:*"]).await;
    let server = Server::on(lockhouse.clone()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let bearer = format!("authorization: Bearer {}\r\n", token.reveal());
    let length = CAPACITY.len();
    let head = format!(
        "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{bearer}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server must have seen the head.
    sleep(Duration::from_millis(500)).await;
    lockhouse.revoke_token("slow").await.unwrap();
    let is_revoked = async || {
        let call = Request::put("/v1/semaphores/b");
        let call = call.header("authorization", format!("Bearer {}", token.reveal()));
        server.send(call, CAPACITY).await.status == StatusCode::UNAUTHORIZED
    };
    until("the server knows it", is_revoked).await;
    stream.write_all(CAPACITY.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(lockhouse.status("a").await.is_err(), "it was defined");
}

const CAPACITY: &str = r#"{"capacity":1}"#;

#[tokio::test]
async fn an_expired_token_is_refused_and_its_waiter_leaves_the_line() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    fill(&lockhouse).await;
    let grants = ["hold:*".parse().unwrap()];
    let expires_at = Timestamp::now()
        .checked_add(Duration::from_secs(5))
        .unwrap();
    let made = lockhouse.create_token("brief", &grants, Some(expires_at));
    let (_, secret) = made.await.unwrap();
    let server = Arc::new(Server::on(lockhouse).await);
    let waiter = waiter(&server, &secret).await;
    waiter.await.unwrap().is_problem(401, "unauthenticated");
    let now = Timestamp::now();
    assert!(now >= expires_at, "{now}");
    assert!(now < expires_at.checked_add(SOON).unwrap(), "{now}");
    until("nobody waits", async || server.waiting("s").await == 0).await;
    let call = Request::get("/v1/requests");
    let call = call.header("authorization", format!("Bearer {}", secret.reveal()));
    let refused = server.send(call, "").await;
    let problem = refused.is_problem(401, "unauthenticated");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("\"brief\" has expired"), "{detail}");
}

/// An open connection by HTTP/2.
async fn connect(server: &Server) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn status(
    connection: &mut SendRequest<Full<Bytes>>,
    server: &Server,
    token: &Secret,
) -> StatusCode {
    let request = Request::get(format!("{}/v1/semaphores", server.url()))
        .header("authorization", format!("Bearer {}", token.reveal()))
        .body(Full::default());
    let answer = connection.send_request(request.unwrap()).await;
    answer.unwrap().status()
}

/// Revoked through one server, and on the database past all servers.
#[tokio::test]
async fn a_token_revoked_elsewhere_is_refused_by_every_server_and_on_open_connections() {
    let store = Arc::new(Memory::default());
    let [first, second, past] = [(); 3].map(|()| Lockhouse::with_store(store.clone()));
    fill(&past).await;
    let admin = made(&past, "admin", &["admin:*"]).await;
    let first = Server::on(first).await;
    let second = Arc::new(Server::on(second).await);
    for name in ["through-a-server", "past-the-servers"] {
        let token = made(&past, name, &["hold:*", "read:*"]).await;
        let mut connection = connect(&second).await;
        assert_eq!(status(&mut connection, &second, &token).await, 200);
        let waiter = waiter(&second, &token).await;
        if name == "through-a-server" {
            let revoke = Request::delete(format!("/v1/tokens/{name}"));
            let revoke = revoke.header("authorization", format!("Bearer {}", admin.reveal()));
            first.send(revoke, "").await.is(204);
        } else {
            past.revoke_token(name).await.unwrap();
        }
        let revoked_at = Instant::now();
        while status(&mut connection, &second, &token).await == 200 {
            assert!(revoked_at.elapsed() < SOON, "{name} is still good");
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(status(&mut connection, &second, &token).await, 401);
        waiter.await.unwrap().is_problem(401, "unauthenticated");
        assert!(revoked_at.elapsed() < SOON, "{name} still waited");
        until("nobody waits", async || second.waiting("s").await == 0).await;
    }
}

#[tokio::test]
async fn the_session_of_a_revoked_token_ends() {
    let guarded = Guarded::start().await;
    let reader = guarded.token("reader", &["read:*"]).await;
    let login = json!({"token": reader.reveal()}).to_string();
    let login = guarded.server.call("POST", "/v1/session", &login).await;
    let cookie = login.is(204).header("set-cookie").unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    let look = async || {
        let call = Request::get("/v1/semaphores").header("cookie", cookie);
        guarded.server.send(call, "").await
    };
    look().await.is(200);
    guarded
        .admin("DELETE", "/v1/tokens/reader", "")
        .await
        .is(204);
    let revoked_at = Instant::now();
    while look().await.status == 200 {
        assert!(revoked_at.elapsed() < SOON, "the session goes on");
        sleep(Duration::from_millis(50)).await;
    }
    look().await.is_problem(401, "unauthenticated");
}

/// By the bound on what one token may have.
#[tokio::test]
async fn a_token_with_many_waiters_leaves_others_room_to_wait() {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    fill(&lockhouse).await;
    let options = Options {
        waiters_per_token: 3,
        ..Options::default()
    };
    let (greedy, other) = (
        made(&lockhouse, "greedy", &["hold:*"]).await,
        made(&lockhouse, "other", &["hold:*"]).await,
    );
    let server = Arc::new(Server::with(lockhouse, options).await);
    let wait = |token: &Secret, id: String| {
        let request = Request::put(format!("/v1/requests/{id}"));
        let request = request.header("authorization", format!("Bearer {}", token.reveal()));
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.send_patiently(request, WAIT).await })
    };
    let _waiters: Vec<_> = (0..3).map(|n| wait(&greedy, format!("x{n}"))).collect();
    until("three wait", async || server.waiting("s").await == 3).await;
    let refused = wait(&greedy, "x3".to_owned()).await.unwrap();
    refused.is_problem(503, "overloaded");
    let _other = wait(&other, "y".to_owned());
    until("another waits", async || server.waiting("s").await == 4).await;
    let metrics = server.send(
        Request::get("/metrics").header("authorization", format!("Bearer {}", other.reveal())),
        "",
    );
    metrics.await.is(403);
}
