//! Callers behind Debian's nginx, which keeps its connections to the server.

use std::fs;
use std::future::Future;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::full::full;
use crate::server::{Server, until};

const PROGRAM: &str = "/usr/sbin/nginx";

/// How soon the line is rid of a caller that is gone.
const SOON: Duration = Duration::from_secs(5);

/// How the caller speaks to nginx; nginx speaks HTTP/1.1 to the server.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    Http1,
    Http2,
}

/// How the caller goes.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Only its stream of HTTP/2 is closed; another call goes on by the same connection.
    Stream,
    Connection,
}

/// P10.
#[tokio::test]
async fn a_waiter_behind_nginx_that_hangs_up_is_granted_nothing() {
    if !is_installed() {
        return;
    }
    for (protocol, end) in [
        (Protocol::Http1, End::Connection),
        (Protocol::Http2, End::Connection),
        (Protocol::Http2, End::Stream),
    ] {
        let server = full().await;
        let nginx = Nginx::before(&server, protocol).await;
        // So that nginx has a connection to keep.
        let (ready, _) = nginx.call(protocol, "GET", "/healthz", "").await;
        assert_eq!(ready.await.unwrap(), 200);
        let (gone, connection) = nginx.wait(protocol, "gone").await;
        until("one waits", || async { server.waiting("a").await == 1 }).await;
        let since = Instant::now();
        gone.abort();
        if let End::Connection = end {
            connection.abort();
        }
        until("nobody waits", || async { server.waiting("a").await == 0 }).await;
        assert!(
            since.elapsed() < SOON,
            "{protocol:?}, {end:?}: {:?}",
            since.elapsed()
        );
        server.call("DELETE", "/v1/requests/x", "").await.is(200);
        let path = "/v1/requests/gone";
        server.get(path).await.is_problem(404, "unknown_request");
        assert_eq!(connection.is_finished(), matches!(end, End::Connection));
    }
}

/// A caller that stays is granted by the same way.
#[tokio::test]
async fn a_waiter_behind_nginx_is_granted() {
    if !is_installed() {
        return;
    }
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = full().await;
        let nginx = Nginx::before(&server, protocol).await;
        let (waits, _connection) = nginx.wait(protocol, "stays").await;
        until("one waits", || async { server.waiting("a").await == 1 }).await;
        server.call("DELETE", "/v1/requests/x", "").await.is(200);
        assert_eq!(waits.await.unwrap(), 201, "{protocol:?}");
    }
}

/// Stopped when this is dropped.
struct Nginx {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Nginx {
    async fn before(server: &Server, protocol: Protocol) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let configuration = configuration(address, server.address, protocol);
        fs::write(folder.path().join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("-p").arg(folder.path());
        command.args(["-e", "error.log", "-c", "nginx.conf"]);
        let process = command.stderr(Stdio::null()).spawn().unwrap();
        let nginx = Self {
            process,
            address,
            _folder: folder,
        };
        until("nginx listens", || async {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        nginx
    }

    /// A call that waits for `a`, and its connection.
    async fn wait(&self, protocol: Protocol, id: &str) -> (JoinHandle<u16>, JoinHandle<()>) {
        let body = r#"{"permits":[{"semaphore":"a"}],"wait_ms":86400000}"#;
        let path = format!("/v1/requests/{id}");
        self.call(protocol, "PUT", &path, body).await
    }

    /// The status of a call, and its connection.
    async fn call(
        &self,
        protocol: Protocol,
        method: &str,
        path: &str,
        body: &str,
    ) -> (JoinHandle<u16>, JoinHandle<()>) {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/json");
        if let Protocol::Http1 = protocol {
            request = request.header("host", self.address.to_string());
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned())));
        let request = request.unwrap();
        let io = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        match protocol {
            Protocol::Http1 => {
                let (mut sender, connection) = http1::handshake(io).await.unwrap();
                let call = async move { sender.send_request(request).await };
                (tokio::spawn(status(call)), spawn(connection))
            }
            Protocol::Http2 => {
                let executor = TokioExecutor::new();
                let (sender, connection) = http2::handshake(executor, io).await.unwrap();
                let mut other = sender.clone();
                let call = async move { other.send_request(request).await };
                let connection = async move {
                    // It is kept for as long as there is somebody to send by it.
                    let _sender = sender;
                    connection.await
                };
                (tokio::spawn(status(call)), spawn(connection))
            }
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn status<B>(call: impl Future<Output = hyper::Result<hyper::Response<B>>>) -> u16 {
    call.await.unwrap().status().as_u16()
}

fn spawn(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move {
        let _ = connection.await;
    })
}

/// One process, in the foreground, with all its files in its folder.
fn configuration(listen: SocketAddr, server: SocketAddr, protocol: Protocol) -> String {
    let http2 = match protocol {
        Protocol::Http1 => "",
        Protocol::Http2 => " http2",
    };
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream lockhouse {{ server {server}; keepalive 8; }}
  server {{
    listen {listen}{http2};
    location / {{
      proxy_pass http://lockhouse;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Host {server};
      proxy_read_timeout 1d;
    }}
  }}
}}
"
    )
}

/// Whether nginx is there.
///
/// # Panics
/// If it is missing and `LOCKHOUSE_TEST_FULL` is set.
fn is_installed() -> bool {
    if std::path::Path::new(PROGRAM).exists() {
        return true;
    }
    assert!(
        std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
        "nginx is not installed, and a full run leaves nothing out; use scripts/test"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Past the test harness's capture, so that it is seen.
    let left_out = format!("left out: {test} (nginx is not installed)\n");
    let _ = std::io::stderr().write_all(left_out.as_bytes());
    false
}
