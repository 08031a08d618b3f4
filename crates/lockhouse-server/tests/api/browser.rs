//! Pages of other sites in a real browser, which do what they can to a server on loopback; and the
//! server's own page.
//!
//! Without Chromium these tests are left out, unless `LOCKHOUSE_TEST_FULL` is set: then they fail.

mod chromium;
mod login;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::server::{PATIENCE, Server};
use chromium::Chromium;
use lockhouse::{Lockhouse, Timestamp};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Another site, under every name but those of loopback.
struct Site {
    port: u16,
    /// The results of the calls, as its page reports them.
    outcomes: mpsc::UnboundedReceiver<Value>,
}

/// Paths and what is found there.
type Pages = Vec<(&'static str, String)>;

impl Site {
    /// A site that has `pages`, and hands on all else to `server`, as seen by a browser after a name that
    /// resolved to the site has come to resolve to the server.
    async fn with(mut pages: Pages, server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for (_, page) in &mut pages {
            *page = page.replace("SERVER", &server.port().to_string());
            *page = page.replace("SITE", &port.to_string());
        }
        let pages: Arc<Pages> = pages.into();
        let (outcome, outcomes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&pages), server, outcome.clone()));
            }
        });
        Self { port, outcomes }
    }

    async fn outcomes(&mut self) -> Value {
        let outcomes = timeout(3 * PATIENCE, self.outcomes.recv()).await;
        outcomes.expect("the page is done in time").unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    pages: Arc<Pages>,
    server: SocketAddr,
    outcome: mpsc::UnboundedSender<Value>,
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut head).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let target = String::from_utf8_lossy(&head).into_owned();
    let target = target.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let page = pages.iter().find(|(at, _)| *at == path);
    let body = match page {
        Some((_, page)) => page,
        None if path == "/done" => {
            let bytes = query.split('.').map(|byte| byte.parse().unwrap());
            let outcomes = serde_json::from_slice(&bytes.collect::<Vec<u8>>());
            // The test may have ended.
            let _ = outcome.send(outcomes.unwrap());
            ""
        }
        None => {
            let mut onward = TcpStream::connect(server).await.unwrap();
            let _ = onward.write_all(&head).await;
            let _ = copy_bidirectional(&mut stream, &mut onward).await;
            return;
        }
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Tries `calls`, an array of names and functions, and tells the site what became of each: the status,
/// or the error.
const TRY_ALL: &str = r"
  const outcomes = {};
  for (const [name, call] of calls) {
    try { outcomes[name] = String(await call()); } catch (error) { outcomes[name] = String(error); }
  }
  const bytes = new TextEncoder().encode(JSON.stringify(outcomes));
  await fetch('http://report.example:SITE/done?' + bytes.join('.'), {mode: 'no-cors'});
";

/// A page that calls the server by its own names, as any page on the web can.
fn cross_origin_page() -> String {
    let calls = r"
      const form = (path, sandbox) => new Promise(resolve => {
        const frame = document.createElement('iframe');
        frame.name = 'frame' + Math.random();
        if (sandbox) frame.sandbox = 'allow-forms';
        const form = document.createElement('form');
        form.method = 'POST'; form.enctype = 'text/plain'; form.target = frame.name;
        form.action = at + path;
        const field = document.createElement('input');
        field.name = '{\x22ttl_ms\x22:31622400000,\x22x\x22:\x22'; field.value = '\x22}';
        form.append(field);
        document.body.append(frame, form);
        let loads = 0;
        frame.onload = () => { loads += 1; resolve('loaded ' + loads); };
        form.submit();
      });
      const status = async (path, options) => (await fetch(at + path, options)).status;
      const ttl = '{\x22ttl_ms\x22:31622400000}', renew = '/v1/requests/x/renew';
      const calls = [
        ['read', () => status('/v1/requests')],
        ['force', () => status('/v1/requests/x?force=true', {method: 'DELETE'})],
        ['resize', () => status('/v1/semaphores/a', {method: 'PUT', body: '{\x22capacity\x22:9}',
          headers: {'content-type': 'application/json'}})],
        ['text', () => status(renew, {method: 'POST', mode: 'no-cors', body: ttl})],
        ['untyped', () => status(renew, {method: 'POST', mode: 'no-cors', body: new Blob([ttl])})],
        ['empty', () => status(renew, {method: 'POST', mode: 'no-cors'})],
        ['unreferred', () => status(renew,
          {method: 'POST', mode: 'no-cors', referrerPolicy: 'no-referrer'})],
        ['beacon', () => navigator.sendBeacon(at + renew, ttl)],
        ['form', () => form(renew, false)],
        ['sandboxed form', () => form(renew, true)],
        ['image', () => new Promise(resolve => {
          const image = new Image();
          image.onerror = () => resolve('no image');
          image.src = at + '/v1/requests';
        })],
      ];";
    // By either name; the second time with all that the first one has not done.
    let attack = |at: &str| format!("{{ const at = '{at}'; {calls} {TRY_ALL} }}");
    let by_name = attack("http://localhost:SERVER");
    let by_address = attack("http://127.0.0.1:SERVER");
    format!("<!doctype html><body><script type=module>{by_name} {by_address}</script>")
}

/// A page whose own name has come to resolve to the server: to the browser, all is of one origin.
fn rebound_page() -> String {
    let calls = r"
      const status = async (path, options) => (await fetch(path, options)).status;
      const json = {'content-type': 'application/json'};
      const calls = [
        ['read', () => status('/v1/requests')],
        ['console', () => status('/')],
        ['force', () => status('/v1/requests/x?force=true', {method: 'DELETE'})],
        ['renew', () => status('/v1/requests/x/renew',
          {method: 'POST', body: '{\x22ttl_ms\x22:31622400000}', headers: json})],
        ['resize', () => status('/v1/semaphores/a',
          {method: 'PUT', body: '{\x22capacity\x22:9}', headers: json})],
      ];";
    format!("<!doctype html><body><script type=module>{calls} {TRY_ALL}</script>")
}

/// A server with a semaphore `a` of one permit, which `x` holds; and when that expires.
async fn held() -> (Server, Timestamp) {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    lockhouse.define("a", 1).await.unwrap();
    let ask = lockhouse.request_with_id("x").permits("a", 1);
    let permit = ask.ttl(Duration::from_secs(3600)).acquire().await.unwrap();
    let expires_at = permit.request().expires_at.unwrap();
    permit.forget();
    (Server::on(lockhouse).await, expires_at)
}

/// That `x` is as it was.
async fn nothing_was_done(server: &Server, expires_at: Timestamp) {
    let x = server.lockhouse.find("x").await.unwrap();
    assert!(x.is_live(), "{x:?}");
    assert_eq!(x.expires_at, Some(expires_at));
    let a = server.lockhouse.status("a").await.unwrap().semaphore;
    assert_eq!((a.capacity.value(), a.in_use), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_does_nothing_to_a_server_on_loopback() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let (server, expires_at) = held().await;
    let mut site = Site::with(vec![("/page", cross_origin_page())], server.address).await;
    let _browser = chromium.open(&format!("http://evil.example:{}/page", site.port));
    for name in ["localhost", "127.0.0.1"] {
        let outcomes = site.outcomes().await;
        for call in ["read", "force", "resize"] {
            let outcome = outcomes[call].as_str().unwrap();
            assert_eq!(outcome, "TypeError: Failed to fetch", "{name} {call}");
        }
        // The calls were made: a page can't read what is answered, but the server counts it.
        assert_eq!(outcomes["text"], "0", "{name}: {outcomes}");
        nothing_was_done(&server, expires_at).await;
    }
    let metrics = server.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let refused = r#"{method="POST",route="/v1/requests/{external_id}/renew",status="403"}"#;
    let refused = metrics.lines().find(|line| line.contains(refused)).unwrap();
    let count: u32 = refused.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 12, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_name_was_rebound_to_loopback_does_nothing() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let (server, expires_at) = held().await;
    let mut site = Site::with(vec![("/page", rebound_page())], server.address).await;
    let _browser = chromium.open(&format!("http://rebound.example:{}/page", site.port));
    let outcomes = site.outcomes().await;
    let outcomes = outcomes.as_object().unwrap();
    assert_eq!(outcomes.len(), 5);
    assert!(
        outcomes.values().all(|outcome| outcome == "421"),
        "{outcomes:?}"
    );
    nothing_was_done(&server, expires_at).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_shown_under_the_servers_own_names_alone() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let (server, _) = held().await;
    let shown = async |host: &str| {
        let url = format!("http://{host}:{}/", server.address.port());
        let shown = tokio::task::spawn_blocking(move || chromium.text_of(&url));
        shown.await.unwrap()
    };
    for host in ["localhost", "127.0.0.1"] {
        let text = shown(host).await;
        assert!(text.contains("1 semaphore"), "{host}: {text}");
    }
    let text = shown("evil.example").await;
    assert!(text.contains("\"status\":421"), "{text}");
}

/// A page that shows the server's own in frames of three widths, and measures it there. It has an icon:
/// the browser would fetch one, and might go on over that connection, which leads to the server.
const MEASURE: &str = r"<!doctype html><link rel=icon href=data:,><body><script type=module>
  const shown = width => new Promise(resolve => {
    const frame = document.createElement('iframe');
    frame.width = width; frame.height = 900; frame.src = '/console';
    document.body.append(frame);
    const look = () => {
      const page = frame.contentDocument;
      const rows = [...page.querySelectorAll('#rows tr')];
      if (rows.length === 0) return setTimeout(look, 20);
      const root = page.documentElement, card = page.querySelector('main');
      resolve(JSON.stringify({
        states: rows.map(row => row.className),
        badges: rows.map(row => row.querySelector('.badge')?.textContent ?? ''),
        heights: rows.map(row => row.cells[0].getBoundingClientRect().height),
        overflow: Math.max(root.scrollWidth - root.clientWidth, card.scrollWidth - card.clientWidth),
      }));
    };
    frame.onload = look;
  });
  const calls = [390, 768, 1280].map(width => [width, () => shown(width)]);
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_can_be_read_on_a_narrow_screen_and_tells_closed_from_full() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let (server, _) = held().await;
    for (name, capacity) in [("a semaphore with a longer name", 10), ("closed", 0)] {
        server.lockhouse.define(name, capacity).await.unwrap();
    }
    let listed = server.get("/v1/semaphores").await.body;
    let pages = vec![
        ("/page", format!("{MEASURE} {TRY_ALL}</script>")),
        (
            "/console",
            include_str!("../../src/console.html").to_owned(),
        ),
        (
            "/v1/semaphores",
            String::from_utf8_lossy(&listed).into_owned(),
        ),
    ];
    let mut site = Site::with(pages, server.address).await;
    let _browser = chromium.open(&format!("http://site.example:{}/page", site.port));
    let outcomes = site.outcomes().await;
    for width in ["390", "768", "1280"] {
        let shown: Value = serde_json::from_str(outcomes[width].as_str().unwrap()).unwrap();
        assert_eq!(shown["states"], json!(["full", "", "closed"]), "{width}");
        assert_eq!(shown["badges"], json!(["full", "", "closed"]), "{width}");
        assert_eq!(shown["overflow"], 0, "{width}");
        let heights = shown["heights"].as_array().unwrap();
        let is_one_line = |height: &Value| height.as_f64().unwrap() < 60.0;
        assert!(heights.iter().all(is_one_line), "{width}: {shown}");
    }
}
