//! `lockhouse serve --otlp-endpoint`, with a small collector on loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::house::House;
use lockhouse_testkit::place;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Takes spans by OTLP over HTTP.
struct Collector {
    url: String,
    spans: Receiver<Vec<Span>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, spans) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    while let Some(spans) = exported(&mut stream) {
                        let _ = sender.send(spans);
                    }
                });
            }
        });
        Self { url, spans }
    }

    /// All that came until nothing came for a second.
    fn all(&self) -> Vec<Span> {
        let next = || self.spans.recv_timeout(Duration::from_secs(1)).ok();
        std::iter::from_fn(next).flatten().collect()
    }
}

/// The spans of one call, which is answered. `None` at the end of the connection.
fn exported(stream: &mut TcpStream) -> Option<Vec<Span>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("post /v1/traces "), "{head}");
    let length = head.split("content-length: ").nth(1).unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    let answer =
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer.as_bytes()).ok()?;
    let scopes = request.resource_spans.into_iter();
    let scopes = scopes.flat_map(|resource| resource.scope_spans);
    Some(scopes.flat_map(|scope| scope.spans).collect())
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The only child of `parent` whose name is `name`.
fn child<'a>(spans: &'a [Span], parent: &[u8], name: &str) -> &'a Span {
    let is_it = |span: &&Span| span.parent_span_id == parent && span.name == name;
    let found: Vec<_> = spans.iter().filter(is_it).collect();
    let [only] = found[..] else {
        panic!(
            "{} spans {name:?} below {}: {spans:#?}",
            found.len(),
            hex(parent)
        );
    };
    only
}

/// The spans of an acquire with `traceparent`, on the store of `house`.
fn traced(house: &House, token: &str) -> Vec<Span> {
    let collector = Collector::start();
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--otlp-endpoint",
        &collector.url,
    ];
    let mut server = house.start(&serve);
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--request", "PUT"])
        .args(["--header", "Content-Type: application/json"])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--header", &format!("traceparent: 00-{TRACE}-{CALLER}-01")])
        .args([
            "--data",
            r#"{"permits":[{"semaphore":"a"}],"ttl_ms":60000}"#,
        ])
        .arg(format!("{url}/v1/requests/x"));
    let called = curl.output().unwrap();
    assert!(called.status.success(), "{called:?}");
    // The server sends the spans that are left when it ends.
    server.signal(Signal::SIGTERM);
    assert_eq!(server.end().code, 0);
    collector.all()
}

#[test]
fn an_acquire_is_traced_from_the_callers_span_to_the_store() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let token = house.text(&["token", "create", "ci", "--grant", "hold:a"]);
    let spans = traced(&house, token.trim());
    let caller = u64::from_str_radix(CALLER, 16).unwrap().to_be_bytes();
    let call = child(&spans, &caller, "PUT /v1/requests/{external_id}");
    assert_eq!(hex(&call.trace_id), TRACE);
    let batch = child(&spans, &call.span_id, "batch");
    child(&spans, &batch.span_id, "store transact");
    assert!(!format!("{spans:?}").contains(token.trim()));
}

#[tokio::test]
async fn a_trace_has_the_statements_on_a_server() {
    for place in [place::mysql().await, place::postgres().await] {
        let Some(place) = place else { continue };
        let house = House::at(place.url());
        house.text(&["migrate"]);
        house.text(&["create", "a", "1"]);
        let token = house.text(&["token", "create", "ci", "--grant", "hold:a"]);
        let spans = traced(&house, token.trim());
        let caller = u64::from_str_radix(CALLER, 16).unwrap().to_be_bytes();
        let call = child(&spans, &caller, "PUT /v1/requests/{external_id}");
        let batch = child(&spans, &call.span_id, "batch");
        let store = child(&spans, &batch.span_id, "store transact");
        let statements = spans.iter();
        let statements = statements.filter(|span| span.parent_span_id == store.span_id);
        assert!(statements.count() >= 2, "{spans:#?}");
    }
}

#[test]
fn a_collector_that_is_away_delays_no_call() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let closed = format!("http://127.0.0.1:{}", crate::reader::free_port());
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--otlp-endpoint",
        &closed,
    ];
    let mut server = house.start(&serve);
    let line = server.line();
    let (_, url) = line.rsplit_once(" on ").expect(&line);
    house.text(&["--url", url, "acquire", "-s", "a", "--id", "x"]);
    house.text(&["--url", url, "release", "x"]);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.end().code, 0);
}

#[test]
fn a_collector_by_https_is_refused() {
    let house = House::on_a_store();
    let serve = ["serve", "--otlp-endpoint", "https://collector.example"];
    let refused = house.done(&serve);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(
        refused.stderr.contains("run a collector beside the server"),
        "{refused:?}"
    );
}
