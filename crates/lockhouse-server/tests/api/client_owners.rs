//! Sessions, force and conditions through the client over HTTP: the same as the library's own.

use std::time::Duration;

use crate::flaky::{self, Fate};
use crate::server::Server;
use lockhouse::{
    Ask, Code, Count, EndReason, Error, ExternalId, Lockhouse, Lost, Owner, Refusal, SemaphoreName,
    Upkeep,
};

async fn acquire(lockhouse: &Lockhouse, id: &str, owner: &str) {
    let permit = (SemaphoreName::parse("a").unwrap(), Count::ONE);
    let mut ask = Ask::new(ExternalId::parse(id).unwrap(), [permit]).unwrap();
    ask.owner = Some(Owner::parse(owner).unwrap());
    lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
}

/// Embedded, and over HTTP.
async fn both() -> (Server, [Lockhouse; 2]) {
    let server = Server::start().await;
    server.lockhouse.define("a", 10).await.unwrap();
    let ways = [server.lockhouse.clone(), server.client().await];
    (server, ways)
}

#[tokio::test]
async fn a_session_is_kept_and_ended() {
    let (_server, ways) = both().await;
    for lockhouse in ways {
        for id in ["x", "y"] {
            acquire(&lockhouse, &uuid(id), "a/nn ?").await;
        }
        let ttl = Duration::from_millis(30_500);
        let heard = lockhouse.heartbeat("a/nn ?", ttl).await.unwrap();
        assert_eq!(heard.session.owner.as_str(), "a/nn ?");
        assert_eq!(heard.session.ttl.as_duration(), ttl);
        assert_eq!(lockhouse.goodbye("a/nn ?").await.unwrap(), 2);
        assert_eq!(lockhouse.goodbye("a/nn ?").await.unwrap(), 0);
        for (owner, ttl, field) in [("", ttl, "owner"), ("ann", Duration::ZERO, "ttl_ms")] {
            let refused = lockhouse.heartbeat(owner, ttl).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid(invalid) if invalid.field() == field));
        }
    }
}

/// An id that no other call of these tests has.
fn uuid(id: &str) -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    format!("{id}-{}", CALLS.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn a_request_is_ended_by_force() {
    let (_server, ways) = both().await;
    for lockhouse in ways {
        for by in [Some("bob & co"), None] {
            let id = uuid("held");
            acquire(&lockhouse, &id, "ann").await;
            let ended = lockhouse.force_release(&id, by).await.unwrap();
            assert!(ended.now);
            assert_eq!(ended.request.end_reason(), Some(EndReason::Forced));
            let told = ended.request.ended_by.as_ref().map(Owner::as_str);
            match by {
                Some(by) => assert_eq!(told, Some(by)),
                None => assert!(told.unwrap().ends_with(&std::process::id().to_string())),
            }
            assert_eq!(lockhouse.find(&id).await.unwrap(), ended.request);
            let again = lockhouse.force_release(&id, Some("cyd")).await.unwrap();
            assert_eq!((again.now, again.request), (false, ended.request));
        }
        let refused = lockhouse.force_release("nobody", None).await.unwrap_err();
        assert_eq!(refused.code(), Code::UnknownRequest);
        let refused = lockhouse.force_release("x", Some("")).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(invalid) if invalid.field() == "by"));
    }
}

#[tokio::test]
async fn of_two_conditional_resizes_one_is_refused() {
    let (_server, ways) = both().await;
    for lockhouse in ways {
        lockhouse.define("s", 1).await.unwrap();
        for capacity in [2, 2] {
            lockhouse.define("s", capacity).expected(1).await.unwrap();
        }
        let refused = lockhouse.define("s", 3).expected(1).await.unwrap_err();
        let Error::Refused(Refusal::CapacityChanged {
            name,
            expected,
            capacity,
        }) = refused
        else {
            panic!("{refused:?}");
        };
        let told = (name.as_str(), expected.value(), capacity.value());
        assert_eq!(told, ("s", 1, 2));
        let refused = lockhouse.define("none", 3).expected(1).await.unwrap_err();
        assert_eq!(refused.code(), Code::UnknownSemaphore);
        let refused = lockhouse.define("s", 3).expected(-1).await.unwrap_err();
        assert!(
            matches!(refused, Error::Invalid(invalid) if invalid.field() == "expected_capacity")
        );
        lockhouse.delete("s").await.unwrap();
    }
}

/// P9.
#[tokio::test]
async fn a_retry_after_a_lost_answer_gets_the_first_answer() {
    let server = Server::start().await;
    server.lockhouse.define("a", 2).await.unwrap();
    acquire(&server.lockhouse, "x", "ann").await;
    acquire(&server.lockhouse, "y", "ann").await;
    let lost = [Fate::Lost, Fate::Passed].repeat(3);
    let url = flaky::proxy(server.address, &lost).await;
    let client = Lockhouse::connect(url).await.unwrap();
    assert!(client.force_release("x", Some("bob")).await.unwrap().now);
    let ttl = Duration::from_secs(30);
    client.heartbeat("ann", ttl).await.unwrap();
    client.goodbye("ann").await.unwrap();
    assert!(!server.lockhouse.find("y").await.unwrap().is_live());
}

/// P9, P10: the answer that would have said so was lost.
#[tokio::test]
async fn a_session_learns_that_it_has_ended_whichever_of_its_heartbeats_is_answered() {
    let server = Server::start().await;
    let fates = [Fate::Passed, Fate::Lost];
    let url = flaky::proxy(server.address, &fates).await;
    let client = Lockhouse::connect(url).await.unwrap();
    let session = client.session("ann", Duration::from_secs(3)).await.unwrap();
    server.lockhouse.goodbye("ann").await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(9), session.lost()).await;
    let lost = lost.expect("it is not believed to go on");
    assert_eq!(lost, Lost::Ended(EndReason::OwnerDead));
}

#[tokio::test]
async fn a_remote_client_cannot_run_upkeep() {
    let (_server, [_, client]) = both().await;
    let refused = [
        client.maintain(Upkeep::default()).map(drop).unwrap_err(),
        client.sweep(&Upkeep::default()).await.unwrap_err(),
        client.verify().await.unwrap_err(),
        client.repair(&[]).await.unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(refused.code(), Code::InvalidRequest);
    }
}
