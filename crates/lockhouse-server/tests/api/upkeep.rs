//! Upkeep behind a server: what it shows of itself, and checks of owners by HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::flaky::{self, answer};
use crate::server::{Server, until};
use lockhouse::liveness::HttpCheck;
use lockhouse::{
    Ask, Code, Count, EndReason, ExternalId, Lockhouse, Maintaining, Owner, OwnerPattern,
    SemaphoreName, Upkeep, UpkeepState,
};
use serde_json::json;
use tokio::net::TcpListener;

fn reserved() -> SemaphoreName {
    SemaphoreName::stored("lockhouse:upkeep").unwrap()
}

/// How many hold the permit by which servers share the upkeep; callers of HTTP can't see it.
async fn turns(lockhouse: &Lockhouse) -> usize {
    let holders = lockhouse.holders(Some(&reserved()), None, 10).await;
    holders.map_or(0, |holders| holders.requests.len())
}

/// A request on the reserved permit, as versions that let callers name it may have left one.
async fn stranger(lockhouse: &Lockhouse, also: Option<&str>) {
    // That makes the semaphore.
    let maintaining = lockhouse.maintain(Upkeep::default()).unwrap();
    until("it has the turn", || async { turns(lockhouse).await == 1 }).await;
    maintaining.stop().await;
    let also = also.map(|name| SemaphoreName::parse(name).unwrap());
    let permits = [reserved()].into_iter().chain(also);
    let id = ExternalId::parse("stranger").unwrap();
    let ask = Ask::new(id, permits.map(|name| (name, Count::ONE))).unwrap();
    lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
}

fn often() -> Upkeep {
    Upkeep {
        sweep_every: Duration::from_millis(50),
        ..Upkeep::default()
    }
}

#[tokio::test]
async fn reserved_names_are_refused_on_every_way_in() {
    let server = Server::start().await;
    let name = "lockhouse:upkeep";
    let path = format!("/v1/semaphores/{name}");
    let ask = format!(r#"{{"permits":[{{"semaphore":"{name}"}}],"ttl_ms":1000}}"#);
    for answer in [
        server.put(&path, r#"{"capacity":5}"#).await,
        server
            .put(&path, r#"{"capacity":5,"expected_capacity":1}"#)
            .await,
        server
            .put("/v1/semaphores/lockhouse%3aepoch", r#"{"capacity":5}"#)
            .await,
        server.get(&path).await,
        server.get(&format!("{path}/holders")).await,
        server.get(&format!("{path}/history")).await,
        server.call("DELETE", &path, "").await,
        server.put("/v1/requests/x", &ask).await,
    ] {
        let problem = answer.is_problem(422, "invalid_request");
        assert_eq!(problem["field"], "semaphore");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("reserved"), "{detail}");
    }
    let lockhouse = &server.lockhouse;
    let refused = lockhouse.define(name, 5).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidRequest);
    let refused = lockhouse.semaphore(name).try_acquire().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidRequest);
}

#[tokio::test]
async fn the_upkeeps_own_request_cannot_be_renewed_or_ended_by_its_id() {
    let server = Server::start().await;
    let lockhouse = &server.lockhouse;
    let maintaining = lockhouse.maintain(Upkeep::default()).unwrap();
    until("it has the turn", || async { turns(lockhouse).await == 1 }).await;
    let turn = || async {
        let holders = lockhouse.holders(Some(&reserved()), None, 1).await;
        holders.unwrap().requests.remove(0)
    };
    let was = turn().await;
    let id = &was.external_id;
    let path = format!("/v1/requests/{id}");
    for (method, query, body) in [
        ("GET", "", ""),
        ("DELETE", "", ""),
        ("DELETE", "?by=lockhouse:upkeep", ""),
        ("DELETE", "?force=true", ""),
        ("DELETE", "?force=true&by=lockhouse:upkeep", ""),
        ("POST", "/renew", r#"{"ttl_ms":86400000}"#),
        ("POST", "/renew", ""),
    ] {
        let answer = server.call(method, &format!("{path}{query}"), body).await;
        answer.is_problem(404, "unknown_request");
    }
    let refused = lockhouse.release(id).await.unwrap_err();
    assert_eq!(refused.code(), Code::UnknownRequest);
    let refused = lockhouse.force_release(id, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::UnknownRequest);
    let refused = lockhouse.renew(id, Some(Duration::from_secs(86_400))).await;
    assert_eq!(refused.unwrap_err().code(), Code::UnknownRequest);
    let still = turn().await;
    assert_eq!((&still.external_id, still.ttl), (id, was.ttl));
    // The upkeep itself still renews and ends it.
    maintaining.stop().await;
    assert_eq!(turns(lockhouse).await, 0);
}

/// P10: nobody may take the permit, so a request that did so before that rule is ended.
#[tokio::test]
async fn a_foreign_holder_of_the_upkeep_permit_is_ended() {
    let server = Server::start().await;
    let lockhouse = &server.lockhouse;
    stranger(lockhouse, None).await;
    let _maintaining = lockhouse.maintain(often()).unwrap();
    until("it works", || async {
        lockhouse.upkeep_state() == UpkeepState::Working
    })
    .await;
    assert_eq!(turns(lockhouse).await, 1);
    let answer = server.get("/readyz").await;
    let body = &answer.is(200).body[..];
    assert_eq!(body, b"ready\nupkeep: working\n");
}

#[tokio::test]
async fn upkeep_that_cannot_run_shows_in_readyz_and_in_a_metric() {
    let server = Server::start().await;
    let lockhouse = &server.lockhouse;
    let shows = async |fails: bool| {
        let ready = server.get("/readyz").await;
        let metrics = server.get("/metrics").await;
        let ready = String::from_utf8_lossy(&ready.is(200).body).into_owned();
        let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
        let line = format!("lockhouse_upkeep_failing {}", u8::from(fails));
        ready.contains("upkeep: failing: ") == fails && metrics.lines().any(|its| its == line)
    };
    assert!(shows(false).await);
    lockhouse.define("a", 1).await.unwrap();
    stranger(lockhouse, Some("a")).await;
    let _maintaining = lockhouse.maintain(often()).unwrap();
    until("it fails", async || shows(true).await).await;
    let text = lockhouse.upkeep_state().to_string();
    assert!(
        text.contains("release it") && text.contains("stranger"),
        "{text}"
    );
    lockhouse.release("stranger").await.unwrap();
    until("it works", async || shows(false).await).await;
    assert_eq!(lockhouse.upkeep_state(), UpkeepState::Working);
}

#[tokio::test]
async fn listings_leave_lockhouses_own_permit_out() {
    let server = Server::start().await;
    let _maintaining = server.lockhouse.maintain(Upkeep::default()).unwrap();
    until("the permit is held", || async {
        turns(&server.lockhouse).await == 1
    })
    .await;
    for limit in [1, 1000] {
        let requests = server.get(&format!("/v1/requests?limit={limit}")).await;
        let none = json!({"requests": [], "next": null});
        assert_eq!(requests.is(200).json(), none);
        let semaphores = server.get(&format!("/v1/semaphores?limit={limit}")).await;
        let none = json!({"semaphores": [], "next": null});
        assert_eq!(semaphores.is(200).json(), none);
    }
    // Ids of both sides of a UUID: whatever the permit's is, it is in the middle.
    server.lockhouse.define("a", 2).await.unwrap();
    for id in ["!", "~"] {
        let ask = r#"{"permits":[{"semaphore":"a"}]}"#;
        server.put(&format!("/v1/requests/{id}"), ask).await.is(201);
    }
    let first = server.get("/v1/requests?limit=1").await.json();
    let next = format!(
        "/v1/requests?limit=1&cursor={}",
        first["next"].as_str().unwrap()
    );
    let second = server.get(&next).await.json();
    let ids = [&first, &second].map(|piece| &piece["requests"][0]["external_id"]);
    assert_eq!(ids, ["!", "~"]);
    assert!(second["next"].is_null(), "{second}");
}

/// The next process need not wait until the permit expires.
#[tokio::test]
async fn upkeep_that_is_stopped_or_dropped_leaves_the_permit() {
    let server = Server::start().await;
    let held = async || turns(&server.lockhouse).await == 1;
    let maintaining = server.lockhouse.maintain(Upkeep::default()).unwrap();
    until("the permit is held", held).await;
    maintaining.stop().await;
    assert!(!held().await);
    let maintaining = server.lockhouse.maintain(Upkeep::default()).unwrap();
    until("the permit is held again", held).await;
    drop(maintaining);
    until("the permit is left", async || !held().await).await;
}

/// A request of the owner "job 1", upkeep that checks it at `template` and does nothing else.
async fn checked(template: String) -> (Lockhouse, Maintaining) {
    let lockhouse = Lockhouse::connect("memory:").await.unwrap();
    lockhouse.define("a", 1).await.unwrap();
    let permit = (SemaphoreName::parse("a").unwrap(), Count::ONE);
    let mut ask = Ask::new(ExternalId::parse("x").unwrap(), [permit]).unwrap();
    ask.owner = Some(Owner::parse("job 1").unwrap());
    lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    let upkeep = Upkeep {
        check_every: Duration::from_millis(10),
        checks: vec![(
            OwnerPattern::new("job*"),
            Arc::new(HttpCheck::new(template).unwrap()),
        )],
        ..Upkeep::default()
    };
    let maintaining = lockhouse.maintain(upkeep).unwrap();
    (lockhouse, maintaining)
}

/// A server whose n-th answer has the n-th of `statuses`, around and around; how many it gave.
async fn jobs(statuses: &'static [u16]) -> (String, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let url = flaky::server(move |nth, call| {
        assert!(
            call.starts_with("GET /jobs/job%201?alive HTTP/1.1"),
            "{call}"
        );
        count.fetch_add(1, SeqCst);
        answer(statuses[nth % statuses.len()], "location: /\r\n", "")
    });
    (format!("{}/jobs/{{owner}}?alive", url.await), calls)
}

async fn end_reason(lockhouse: &Lockhouse) -> Option<EndReason> {
    lockhouse.find("x").await.unwrap().end_reason()
}

#[tokio::test]
async fn an_owner_that_is_gone_twice_in_a_row_frees_what_it_holds() {
    for statuses in [&[404, 404][..], &[410], &[200, 404, 200, 404, 410]] {
        let (url, calls) = jobs(statuses).await;
        let (lockhouse, _maintaining) = checked(url).await;
        until("it is freed", || async {
            end_reason(&lockhouse).await.is_some()
        })
        .await;
        assert_eq!(end_reason(&lockhouse).await, Some(EndReason::OwnerDead));
        let least = if statuses.len() == 5 { 5 } else { 2 };
        assert!(calls.load(SeqCst) >= least);
    }
}

#[tokio::test]
async fn an_owner_that_may_live_keeps_what_it_holds() {
    for statuses in [
        &[404, 200][..],
        &[404, 500],
        &[410, 301],
        &[500],
        &[403],
        &[204],
    ] {
        let (url, calls) = jobs(statuses).await;
        let (lockhouse, _maintaining) = checked(url).await;
        until("it was checked", || async { calls.load(SeqCst) >= 7 }).await;
        assert_eq!(end_reason(&lockhouse).await, None, "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_gets_no_answer_frees_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let urls = [&silent, &nobody].map(|listener| {
        let address = listener.local_addr().unwrap();
        format!("http://{address}/{{owner}}")
    });
    drop(nobody);
    for url in urls {
        let (lockhouse, _maintaining) = checked(url).await;
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert_eq!(end_reason(&lockhouse).await, None);
    }
}

#[test]
fn an_invalid_liveness_template_is_refused() {
    for template in ["", "https://host/jobs", "ftp://host/{owner}", "{owner}"] {
        let refused = HttpCheck::new(template).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidRequest, "{template}");
    }
}
