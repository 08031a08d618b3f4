//! The audit log, and what strangers can do to it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use lockhouse::{Lockhouse, Secret};
use lockhouse_server::{AuditLog, Options};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::access::made;
use crate::server::{Answer, Server, until};
use crate::slow_store::SlowStore;

struct Audited {
    server: Server,
    admin: Secret,
    folder: TempDir,
}

impl Audited {
    async fn start(behind_proxy: bool) -> Self {
        let store = Arc::new(SlowStore::new(100, Duration::from_millis(50)));
        let lockhouse = Lockhouse::with_store(store);
        let admin = made(&lockhouse, "admin", &["admin:*"]).await;
        let folder = TempDir::new().unwrap();
        let options = Options {
            audit: Some(AuditLog::open(folder.path().join("audit.log")).unwrap()),
            behind_proxy,
            ..Options::default()
        };
        let server = Server::with(lockhouse, options).await;
        Self {
            server,
            admin,
            folder,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file()).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn last(&self) -> Value {
        self.lines().pop().unwrap()
    }

    async fn call(&self, token: Option<&Secret>, method: &str, path: &str, body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        self.server.send(request, body).await
    }

    async fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        self.call(Some(&self.admin), method, path, body).await
    }
}

#[tokio::test]
async fn refused_calls_of_a_stranger_make_few_and_short_lines() {
    let audited = Audited::start(false).await;
    let path = format!("/v1/semaphores/{}", "%41".repeat(4_000));
    let begun = Instant::now();
    for _ in 0..300 {
        let call = Request::get(&path).header("origin", "http://evil.example");
        audited.server.send(call, "").await.is(403);
    }
    let written = audited.lines().len() as u64;
    let most = 100 + begun.elapsed().as_secs() + 1;
    assert!((100..=most).contains(&written), "{written} lines");
    let bytes = fs::metadata(audited.file()).unwrap().len();
    assert!(bytes < 2_000 * written, "{bytes} bytes");
    // A token's refusals have lines all the same, and the next of strangers says what is missing.
    let reader = made(&audited.server.lockhouse, "reader", &["read:*"]).await;
    let refused = audited
        .call(Some(&reader), "DELETE", "/v1/tokens/x", "")
        .await;
    refused.is(403);
    assert_eq!(audited.last()["by"], "reader");
    tokio::time::sleep(Duration::from_secs(2)).await;
    audited.call(None, "GET", "/v1/requests", "").await.is(401);
    let last = audited.last();
    let left_out = audited.lines().into_iter();
    let left_out: u64 = left_out.filter_map(|line| line["left_out"].as_u64()).sum();
    assert_eq!(written + left_out, 300, "{last}");
}

/// A caller that hangs up can't keep what it does out of the log.
#[tokio::test]
async fn a_change_is_logged_though_its_caller_hangs_up() {
    let audited = Audited::start(false).await;
    audited.admin("GET", "/v1/semaphores", "").await.is(200);
    let mut stream = TcpStream::connect(audited.server.address).await.unwrap();
    let body = r#"{"capacity":7}"#;
    let head = format!(
        "PUT /v1/semaphores/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
        audited.admin.reveal(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The store takes 50 ms for each call, so it is under way when its connection is reset.
    tokio::time::sleep(Duration::from_millis(40)).await;
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
    until("it is done", async || {
        audited.server.lockhouse.status("a").await.is_ok()
    })
    .await;
    until("it is logged", async || {
        audited
            .lines()
            .iter()
            .any(|line| line["action"] == "define")
    })
    .await;
}

#[tokio::test]
async fn a_line_names_the_caller_and_its_address() {
    let audited = Audited::start(true).await;
    audited
        .call(None, "GET", "/v1/semaphores", "")
        .await
        .is(401);
    let line = audited.last();
    assert_eq!(
        (&line["code"], &line["status"], &line["by"], &line["from"]),
        (
            &"unauthenticated".into(),
            &401.into(),
            &Value::Null,
            &"127.0.0.1".into()
        )
    );
    let forwarded = Request::get("/v1/semaphores").header("x-forwarded-for", "203.0.113.9");
    audited.server.send(forwarded, "").await.is(401);
    assert_eq!(audited.last()["from"], "203.0.113.9");
    let misdirected = || Request::get("/v1/semaphores").header("host", "evil.example");
    audited.server.send(misdirected(), "").await.is(421);
    assert_eq!(audited.last()["status"], 421);
    let forwarded = misdirected().header("x-forwarded-for", "203.0.113.9");
    audited.server.send(forwarded, "").await.is(421);
    assert_eq!(audited.last()["from"], "203.0.113.9");

    audited
        .admin("PUT", "/v1/semaphores/a", r#"{"capacity":2}"#)
        .await
        .is(201);
    let ci = made(&audited.server.lockhouse, "ci", &["hold:*"]).await;
    let held = r#"{"permits":[{"semaphore":"a"}],"ttl_ms":60000,"owner":"job"}"#;
    audited
        .call(Some(&ci), "PUT", "/v1/requests/x", held)
        .await
        .is(201);
    audited
        .admin("POST", "/v1/requests/x/renew", "")
        .await
        .is(200);
    let line = audited.last();
    assert_eq!(
        (&line["action"], &line["request"], &line["by"]),
        (&"renew_of_another".into(), &"x".into(), &"admin".into())
    );
    audited.admin("DELETE", "/v1/owners/job", "").await.is(200);
    let line = audited.last();
    assert_eq!(
        (&line["action"], &line["owner"], &line["by"]),
        (&"force".into(), &"job".into(), &"admin".into())
    );
}
