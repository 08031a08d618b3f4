//! P9 over HTTP: what the client does when answers are lost, connections fail and servers are
//! busy. Mostly the clock is paused: it jumps ahead when nobody has anything to do. It is not where the
//! client must tell whether its own call released a request: for that it compares its clock with the store's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::flaky::{self, Fate, answer};
use crate::server::Server;
use lockhouse::{Ask, Code, Count, Error, ExternalId, Lockhouse, Refusal, SemaphoreName};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

/// More than a client asks in 10 s.
const LOST: [Fate; 100] = [Fate::Lost; 100];

fn ask(id: &str) -> Ask {
    let permits = [(SemaphoreName::parse("a").unwrap(), Count::ONE)];
    Ask::new(ExternalId::parse(id).unwrap(), permits).unwrap()
}

/// A server with one semaphore of which "held" holds one, and a client that loses answers.
async fn losing(fates: &[Fate]) -> (Server, Lockhouse) {
    let server = Server::start().await;
    server.lockhouse.define("a", 2).await.unwrap();
    server
        .lockhouse
        .acquire(ask("held"), Duration::ZERO)
        .await
        .unwrap();
    let url = flaky::proxy(server.address, fates).await;
    (server, Lockhouse::connect(url).await.unwrap())
}

/// P9.
#[tokio::test]
async fn a_release_whose_answer_is_lost_is_a_release() {
    let (_server, client) = losing(&LOST[..3]).await;
    assert!(client.release("held").await.unwrap().now);
    assert!(!client.release("held").await.unwrap().now);
}

/// P9.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_is_lost_is_a_deletion() {
    let (server, client) = losing(&LOST[..1]).await;
    server.lockhouse.release("held").await.unwrap();
    client.delete("a").await.unwrap();
    let again = client.delete("a").await.unwrap_err();
    assert!(matches!(
        again,
        Error::Refused(Refusal::UnknownSemaphore(_))
    ));
}

/// P5, P9.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_is_lost_is_granted_once() {
    let (server, client) = losing(&LOST[..2]).await;
    let (request, _) = client.acquire(ask("x"), Duration::ZERO).await.unwrap();
    assert_eq!(request, server.lockhouse.find("x").await.unwrap());
    let status = server.lockhouse.status("a").await.unwrap();
    assert_eq!((status.semaphore.in_use, status.semaphore.fence), (2, 2));
}

#[tokio::test]
async fn a_permit_outlives_lost_answers() {
    let (_server, client) = losing(&[Fate::Lost, Fate::Passed, Fate::Lost]).await;
    let permit = client.semaphore("a").acquire().await.unwrap();
    assert!(permit.release().await.unwrap().now);
}

/// P9: the error tells whether the call may have been done.
#[tokio::test(start_paused = true)]
async fn without_an_answer_for_10_s_the_outcome_is_unknown() {
    let (server, client) = losing(&LOST).await;
    let begun = Instant::now();
    let error = client.release("held").await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.maybe_applied() && error.is_transient(), "{error:?}");
    assert_asked_until_the_end(begun);
    assert!(!server.lockhouse.find("held").await.unwrap().is_live());

    let (_server, client) = losing(&LOST).await;
    let error = client.find("held").await.unwrap_err();
    assert!(!error.maybe_applied(), "a read applies nothing: {error:?}");
}

/// The last pause is of at most 2 s.
fn assert_asked_until_the_end(begun: Instant) {
    let took = begun.elapsed();
    let bounds = Duration::from_millis(7_900)..Duration::from_secs(10);
    assert!(bounds.contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_unavailable_and_named_by_its_url() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://ann:secret@{address}/locks");
    let client = Lockhouse::connect(url).await.unwrap();
    let begun = Instant::now();
    let error = client.release("x").await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.is_transient() && !error.maybe_applied(), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("http://{address}/locks can't be reached")),
        "{text}"
    );
    assert!(
        text.contains("refused") && !text.contains("secret"),
        "{text}"
    );
    assert_asked_until_the_end(begun);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_in_time_answers() {
    let server = Server::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Lockhouse::connect(format!("http://{address}"))
        .await
        .unwrap();
    let returning = async {
        // As long as a restart may take.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(lockhouse_server::serve(
            server.lockhouse.clone(),
            listener,
            std::future::pending::<()>(),
        ));
    };
    let (ready, ()) = tokio::join!(client.ready(), returning);
    ready.unwrap();
}

/// A server that answers the first calls so, and later ones as if there were no semaphores.
async fn at_first(calls: usize, first: String) -> (Lockhouse, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let url = flaky::server(move |nth, _| {
        count.fetch_add(1, SeqCst);
        match nth < calls {
            true => first.clone(),
            false => answer(200, "", r#"{"semaphores":[],"next":null}"#),
        }
    });
    (Lockhouse::connect(url.await).await.unwrap(), asked)
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_until_10_s_have_passed() {
    let busy = answer(503, "", r#"{"code":"overloaded","detail":"later"}"#);
    let (client, asked) = at_first(5, busy.clone()).await;
    assert!(client.semaphores(None, 1).await.unwrap().is_empty());
    assert_eq!(asked.load(SeqCst), 6);

    let (client, asked) = at_first(usize::MAX, busy).await;
    let begun = Instant::now();
    let error = client.semaphores(None, 1).await.unwrap_err();
    assert_eq!(error.code(), Code::Overloaded);
    assert_asked_until_the_end(begun);
    // Pauses grow to 1 to 2 s.
    assert!((8..=14).contains(&asked.load(SeqCst)), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_says_when_to_ask_again() {
    let (client, _) = at_first(1, answer(503, "retry-after: 1\r\n", "")).await;
    let begun = Instant::now();
    client.semaphores(None, 1).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1));

    for ages in [3_600, u64::MAX] {
        let in_ages = answer(503, &format!("retry-after: {ages}\r\n"), "");
        let (client, asked) = at_first(9, in_ages).await;
        let error = client.semaphores(None, 1).await.unwrap_err();
        assert_eq!(
            (error.code(), asked.load(SeqCst)),
            (Code::StoreUnavailable, 1)
        );
    }

    for odd in ["-1", "1.5", "soon", "", "18446744073709551616"] {
        let busy = answer(503, &format!("retry-after: {odd}\r\n"), "");
        let (client, _) = at_first(1, busy).await;
        client.semaphores(None, 1).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_gateway_answer_is_retried() {
    for status in [502, 504] {
        let (client, asked) = at_first(2, answer(status, "", "<html>")).await;
        client.semaphores(None, 1).await.unwrap();
        assert_eq!(asked.load(SeqCst), 3);
    }
}

#[tokio::test]
async fn another_kind_of_server_is_reported() {
    let moved = answer(301, "location: https://elsewhere/\r\n", "");
    let page = answer(200, "", "<html>");
    for first in [
        answer(404, "", "<html>"),
        moved,
        answer(405, "", "{}"),
        page,
    ] {
        let (client, asked) = at_first(9, first).await;
        let error = client.semaphores(None, 1).await.unwrap_err();
        assert_eq!(
            (error.code(), asked.load(SeqCst)),
            (Code::InvalidRequest, 1)
        );
        assert!(
            error
                .to_string()
                .contains("is it the URL of a lockhouse server?"),
            "{error}"
        );
    }
    // JSON of another kind is a defect of the server.
    let (client, _) = at_first(9, answer(200, "", r#"{"pages":1}"#)).await;
    let error = client.semaphores(None, 1).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
}

/// The promise to the caller, whatever the server does.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_answered_ends_within_10_s() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Lockhouse::connect(format!("http://{}", silent.local_addr().unwrap()))
        .await
        .unwrap();
    let begun = Instant::now();
    let error = client.release("x").await.unwrap_err();
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert!(error.maybe_applied(), "{error:?}");
}

#[tokio::test]
async fn a_long_wait_is_cut_into_calls_of_20_s() {
    let full = answer(423, "", r#"{"code":"exhausted","semaphores":["a"]}"#);
    let (waits, mut waited) = tokio::sync::mpsc::unbounded_channel();
    let url = flaky::server(move |nth, call| {
        let (_, body) = call.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        waits.send(body["wait_ms"].as_u64().unwrap()).unwrap();
        match nth {
            0 | 1 => full.clone(),
            _ => answer(
                409,
                "",
                r#"{"code":"idempotency_conflict","external_id":"x"}"#,
            ),
        }
    });
    let client = Lockhouse::connect(url.await).await.unwrap();
    for (wait, expected) in [
        (Duration::from_secs(50), 19_000..=20_000),
        (Duration::MAX, 19_000..=20_000),
    ] {
        let refused = client.acquire(ask("x"), wait).await.unwrap_err();
        assert_eq!(refused.code(), Code::IdempotencyConflict);
        while let Ok(wait_ms) = waited.try_recv() {
            assert!(expected.contains(&wait_ms), "{wait_ms}");
        }
    }
}

/// P5, P9: the first try may wait at the server yet, on a connection that is silent, and be granted there.
#[tokio::test(start_paused = true)]
async fn a_refusal_on_retry_after_a_lost_answer_is_unknown() {
    let (server, client) = losing(&LOST[..1]).await;
    server
        .lockhouse
        .acquire(ask("other"), Duration::ZERO)
        .await
        .unwrap();
    let error = client.acquire(ask("x"), Duration::ZERO).await.unwrap_err();
    assert!(error.maybe_applied(), "{error:?}");
    // Asked once more, with no answer lost, it is one.
    let error = client.acquire(ask("x"), Duration::ZERO).await.unwrap_err();
    assert_eq!(error.code(), Code::Exhausted);
}

/// P10: an ask that its caller has given up on, and that a server reads only after it was to be given back, is given
/// back then.
#[tokio::test]
async fn an_abandoned_ask_that_arrives_late_is_released() {
    let server = Server::start().await;
    server.lockhouse.define("a", 1).await.unwrap();
    let url = flaky::late(server.address, Duration::from_millis(300)).await;
    let client = Lockhouse::connect(url).await.unwrap();
    for ttl in [Some(Duration::from_secs(30)), None] {
        let ask = client.request().permits("a", 1);
        let ask = match ttl {
            Some(ttl) => ask.ttl(ttl),
            None => ask.without_ttl(),
        };
        let given_up = timeout(Duration::from_millis(100), ask.acquire()).await;
        assert!(given_up.is_err(), "{given_up:?}");
        let in_use = async || server.lockhouse.status("a").await.unwrap().semaphore.in_use;
        timeout(Duration::from_secs(5), async {
            while in_use().await == 0 {
                sleep(Duration::from_millis(5)).await;
            }
            while in_use().await > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("with a TTL of {ttl:?} it is still held"));
    }
}

/// P10: the longest that a call may be on its way.
#[tokio::test(start_paused = true)]
async fn an_abandoned_ask_is_released_again_when_its_call_must_have_arrived() {
    let releases = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&releases);
    let url = flaky::server(move |_, call| {
        if call.starts_with("PUT") {
            return answer(503, "retry-after: 60\r\n", "{}");
        }
        heard.fetch_add(1, SeqCst);
        let unknown = r#"{"code":"unknown_request","external_id":"x"}"#;
        answer(404, "content-type: application/problem+json\r\n", unknown)
    });
    let client = Lockhouse::connect(url.await).await.unwrap();
    let asks = client.request().permits("a", 1);
    let given_up = timeout(Duration::from_millis(100), asks.acquire()).await;
    assert!(!matches!(given_up, Ok(Ok(_))), "{given_up:?}");
    client.clone().close().await;
    assert_eq!(releases.load(SeqCst), 1);
    sleep(Duration::from_secs(12)).await;
    assert_eq!(releases.load(SeqCst), 3);
}
