//! A server to call, and callers who send exactly what they are told to.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use lockhouse::Lockhouse;
use lockhouse_server::{Options, StoreMetrics};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The engine behind it.
    pub(crate) lockhouse: Lockhouse,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<io::Result<()>>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::on(Lockhouse::connect("memory:").await.unwrap()).await
    }

    pub(crate) async fn on(lockhouse: Lockhouse) -> Self {
        Self::with(lockhouse, Options::default()).await
    }

    /// As `lockhouse serve` does it: with what there is to say of the store.
    pub(crate) async fn with_store_metrics() -> Self {
        let store = lockhouse_stores::open("memory:").unwrap();
        let (store, metrics) = StoreMetrics::around(store);
        let options = Options {
            store_metrics: Some(metrics),
            ..Options::default()
        };
        Self::with(Lockhouse::with_store(store), options).await
    }

    pub(crate) async fn with(lockhouse: Lockhouse, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(lockhouse_server::serve_with(
            lockhouse.clone(),
            listener,
            options,
            stopped,
        ));
        Self {
            address,
            lockhouse,
            stop: Some(stop),
            served,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn client(&self) -> Lockhouse {
        Lockhouse::connect(self.url()).await.unwrap()
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        self.send(Request::builder().method(method).uri(path), body)
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.call("PUT", path, body).await
    }

    pub(crate) async fn send(&self, request: hyper::http::request::Builder, body: &str) -> Answer {
        let answer = timeout(PATIENCE, self.send_patiently(request, body)).await;
        answer.expect("an answer in time")
    }

    /// However long the answer takes.
    pub(crate) async fn send_patiently(
        &self,
        mut request: hyper::http::request::Builder,
        body: &str,
    ) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let headers = request.headers_mut().unwrap();
        let own = self.address.to_string().parse().unwrap();
        headers.entry("host").or_insert(own);
        if !body.is_empty() && !headers.contains_key("content-type") {
            headers.insert("content-type", "application/json".parse().unwrap());
        }
        let request = request
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let response = sender.send_request(request).await;
        let (parts, body) = response.unwrap().into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Says to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(self) {
        let served = timeout(PATIENCE, self.served).await;
        served.expect("an end in time").unwrap().unwrap();
    }

    /// How many connections are open, with the one that asks.
    pub(crate) async fn connections(&self) -> u32 {
        let metrics = self.get("/metrics").await;
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("lockhouse_http_connections "));
        count.unwrap().parse().unwrap()
    }

    pub(crate) async fn waiting(&self, semaphore: &str) -> u32 {
        self.lockhouse.status(semaphore).await.unwrap().waiting
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{} {text}", self.status))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> &Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self
    }

    /// That it is a problem document of this status and code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> Value {
        self.is(status);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["code"], code);
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        problem
    }
}

/// Waits until `holds` says so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let polled = timeout(PATIENCE, async {
        while !holds().await {
            sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(polled.await.is_ok(), "never came true: {what}");
}
