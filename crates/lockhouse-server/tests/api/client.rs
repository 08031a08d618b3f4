//! The client over HTTP is the library: the same calls, the same answers, the same errors.

use std::time::Duration;

use crate::server::{Server, until};
use lockhouse::{Ask, Code, Count, Error, ExternalId, Lockhouse, Refusal, SemaphoreName};

fn ask(id: &str, semaphore: &str) -> Ask {
    let permits = [(SemaphoreName::parse(semaphore).unwrap(), Count::ONE)];
    Ask::new(ExternalId::parse(id).unwrap(), permits).unwrap()
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_permit_is_held_renewed_and_given_back() {
    let server = Server::start().await;
    let client = server.client().await;
    let (defined, created) = client.define("a", 2).send().await.unwrap();
    assert!(created && defined.semaphore.capacity.value() == 2);

    let asked = client
        .request_with_id("job-1")
        .permits("a", 2)
        .owner("ann")
        .ttl(Duration::from_millis(300));
    let permit = asked.acquire().await.unwrap();
    assert_eq!(permit.fence("a"), 1);
    let first = permit.request().expires_at;
    until("it was renewed", || async {
        server.lockhouse.find("job-1").await.unwrap().expires_at > first
    })
    .await;
    assert!(!permit.is_lost());
    let found = client.find("job-1").await.unwrap();
    assert_eq!(found.owner.as_ref().unwrap().as_str(), "ann");

    assert!(permit.release().await.unwrap().now);
    assert!(!client.release("job-1").await.unwrap().now);
    client.delete("a").await.unwrap();
}

#[tokio::test]
async fn a_dropped_permit_is_given_back() {
    let server = Server::start().await;
    let client = server.client().await;
    client.define("a", 1).await.unwrap();
    drop(client.semaphore("a").acquire().await.unwrap());
    until("it is free", || async {
        client.semaphore("a").available_permits().await.unwrap() == 1
    })
    .await;
}

#[tokio::test]
async fn the_client_reports_the_errors_of_the_engine() {
    let server = Server::start().await;
    let client = server.client().await;
    client.define("a", 2).await.unwrap();
    client
        .define("a", 3)
        .changed_by("ann")
        .note("more")
        .await
        .unwrap();
    client.acquire(ask("x", "a"), Duration::ZERO).await.unwrap();
    client.acquire(ask("y", "a"), Duration::ZERO).await.unwrap();

    let engine = &server.lockhouse;
    let a = SemaphoreName::parse("a").unwrap();
    assert_eq!(
        client.status("a").await.unwrap(),
        engine.status("a").await.unwrap()
    );
    assert_eq!(
        client.find("x").await.unwrap(),
        engine.find("x").await.unwrap()
    );
    assert_eq!(
        client.history("a", 10).await.unwrap(),
        engine.history("a", 10).await.unwrap()
    );
    for after in [None, Some(&a)] {
        let listed = client.semaphores(after, 10).await.unwrap();
        assert_eq!(listed, engine.semaphores(after, 10).await.unwrap());
    }
    for on in [None, Some(&a)] {
        let mut after = None;
        for has in [1, 1] {
            let held = client.holders(on, after, 1).await.unwrap();
            assert_eq!(held, engine.holders(on, after, 1).await.unwrap());
            assert_eq!(held.requests.len(), has);
            after = held.next;
        }
        assert_eq!(after, None);
    }
}

/// Of two ways to ask, the answers.
async fn refusals(lockhouse: &Lockhouse) -> Vec<Refusal> {
    let now = Duration::ZERO;
    let mut other = ask("held", "full");
    other.owner = Some("bob".parse().unwrap());
    vec![
        refusal(lockhouse.status("none").await),
        refusal(lockhouse.define("none", 1).must_exist().send().await),
        refusal(lockhouse.find("nobody").await),
        refusal(lockhouse.acquire(ask("x", "none"), now).await),
        refusal(lockhouse.acquire(ask("x", "closed"), now).await),
        refusal(lockhouse.acquire(ask("x", "full"), now).await),
        refusal(
            lockhouse
                .acquire(ask("x", "full"), Duration::from_millis(20))
                .await,
        ),
        refusal(lockhouse.acquire(other, now).await),
        refusal(lockhouse.acquire(ask("ended", "full"), now).await),
        refusal(lockhouse.renew("ended", None).await),
        refusal(lockhouse.renew("held", None).await),
        refusal(lockhouse.release("nobody").await),
        refusal(lockhouse.delete("full").await),
        refusal(lockhouse.history("none", 1).await),
        refusal(
            lockhouse
                .holders(Some(&"none".parse().unwrap()), None, 1)
                .await,
        ),
    ]
}

#[tokio::test]
async fn refusals_are_the_same_as_the_engines() {
    let server = Server::start().await;
    let client = server.client().await;
    client.define("full", 1).await.unwrap();
    client.define("closed", 0).await.unwrap();
    client
        .acquire(ask("ended", "full"), Duration::ZERO)
        .await
        .unwrap();
    client.release("ended").await.unwrap();
    client
        .acquire(ask("held", "full"), Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(refusals(&client).await, refusals(&server.lockhouse).await);
}

#[tokio::test]
async fn names_with_any_characters_round_trip() {
    let server = Server::start().await;
    let client = server.client().await;
    for name in [
        "a/b",
        "/",
        "%2F",
        "%2e%2e",
        "...",
        "é 🛶",
        "a?b#c&d=e",
        "a\\b",
        "../a",
        "a;b,c",
    ] {
        let (_, created) = client.define(name, 1).send().await.unwrap();
        assert!(created, "{name}");
        let status = server.lockhouse.status(name).await.unwrap();
        assert_eq!(status.semaphore.name.as_str(), name);
        let (request, _) = client
            .acquire(ask(name, name), Duration::ZERO)
            .await
            .unwrap();
        assert_eq!(request.external_id.as_str(), name);
        assert!(client.release(name).await.unwrap().now);
        let after = SemaphoreName::parse(name).unwrap();
        client.semaphores(Some(&after), 1).await.unwrap();
    }
}

/// A name that a URL cannot express is not sent to another resource.
#[tokio::test]
async fn dots_alone_are_refused_with_a_reason() {
    let server = Server::start().await;
    let client = server.client().await;
    for name in [".", ".."] {
        server.lockhouse.define(name, 1).await.unwrap();
        let refused = client.define(name, 1).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidRequest);
        assert!(refused.to_string().contains("path of a URL"), "{refused}");
        client.release(name).await.unwrap_err();
        // Within a body it is a name like any other.
        client
            .acquire(ask(&format!("on{name}"), name), Duration::ZERO)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_path_of_the_url_is_kept() {
    let paths = crate::flaky::server(|_, call| {
        let path = call.split(' ').nth(1).unwrap().to_owned();
        crate::flaky::answer(
            500,
            "",
            &format!(r#"{{"code":"internal","detail":"{path}"}}"#),
        )
    });
    let client = Lockhouse::connect(format!("{}/locks/", paths.await))
        .await
        .unwrap();
    let error = client.status("a b").await.unwrap_err();
    assert_eq!(error.to_string(), "/locks/v1/semaphores/a%20b");
}

#[tokio::test]
async fn migrating_asks_whether_the_server_is_ready() {
    let server = Server::start().await;
    let client = server.client().await;
    client.migrate().await.unwrap();
    client.ready().await.unwrap();
}

#[tokio::test]
async fn credentials_in_the_url_are_sent() {
    let heard = crate::flaky::server(|_, call| {
        let authorized = call
            .lines()
            .find(|line| line.starts_with("authorization: "));
        let problem = serde_json::json!({"code": "internal", "detail": authorized});
        crate::flaky::answer(500, "", &problem.to_string())
    });
    let url = heard.await.replace("//", "//ann:secret@");
    let client = Lockhouse::connect(url).await.unwrap();
    let error = client.ready().await.unwrap_err();
    assert_eq!(error.to_string(), "authorization: Basic YW5uOnNlY3JldA==");
}

/// A server without TLS gets no call.
#[tokio::test(start_paused = true)]
async fn an_https_url_is_never_asked_in_the_clear() {
    let server = Server::start().await;
    let url = server.url().replace("http:", "https:");
    let client = Lockhouse::connect(url).await.unwrap();
    let error = client.define("a", 1).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(!error.maybe_applied(), "{error:?}");
    assert!(server.lockhouse.status("a").await.is_err());
}
