use lockhouse_core::store::Upkeep as _;
use lockhouse_core::{EndReason, OwnerSession, Timestamp};

use super::*;

fn goodbye(whose: &str) -> Command {
    Command::Goodbye {
        owner: owner(whose),
    }
}

async fn heard(store: &Sqlite, whose: &str, ttl_ms: u64) -> OwnerSession {
    match run(store, heartbeat(whose, ttl_ms)).await.unwrap().unwrap() {
        Reply::Heard { session, .. } => session,
        other => panic!("not heard: {other:?}"),
    }
}

/// The owners with a session, and until when.
fn sessions(place: &Place) -> Vec<(String, i64, i64)> {
    let connection = place.connect();
    let list = "SELECT owner, ttl_ms, expires_at FROM lockhouse_owner_session ORDER BY owner";
    let mut list = connection.prepare(list).unwrap();
    let rows = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

/// P8
#[tokio::test]
async fn a_heartbeat_is_kept_and_the_next_one_takes_its_place() {
    let (place, store) = Place::migrated().await;
    let before = Timestamp::now().as_microsecond();
    heard(&store, "o", 1_000).await;
    heard(&store, "O", 1_000).await;
    let session = heard(&store, "o", 90_000).await;
    let until = session.expires_at.as_microsecond();
    assert!(until >= before + 90_000_000);
    let kept = sessions(&place);
    assert_eq!(kept[0].0, "O");
    assert_eq!(kept[1], ("o".to_owned(), 90_000, until));
}

#[tokio::test]
async fn a_goodbye_deletes_the_session_once() {
    let (place, store) = Place::migrated().await;
    heard(&store, "o", 1_000).await;
    for now in [true, false] {
        let gone = run(&store, goodbye("o")).await.unwrap().unwrap();
        assert_eq!(gone, Reply::Gone { now });
        assert!(sessions(&place).is_empty());
    }
    run_all(&store, [heartbeat("o", 1_000), goodbye("o")]).await;
    assert!(sessions(&place).is_empty());
    run_all(
        &store,
        [heartbeat("o", 1), goodbye("o"), heartbeat("o", 5_000)],
    )
    .await;
    assert_eq!(sessions(&place)[0].1, 5_000);
}

/// P10
#[tokio::test]
async fn the_session_is_looked_at_again_before_a_silent_owners_request_ends() {
    let (place, store) = Place::migrated().await;
    run_all(
        &store,
        [
            define("a", 1),
            acquire_for("o", "r", "a"),
            heartbeat("o", 60_000),
        ],
    )
    .await;
    let cause = Cause::OwnerSilent { owner: owner("o") };
    run_all(&store, [end("r", cause.clone())]).await;
    let request = store.request(&id("r")).await.unwrap().unwrap();
    assert!(request.is_live(), "the owner was heard of again");
    let lapse = "UPDATE lockhouse_owner_session SET expires_at = 1";
    place.connect().execute(lapse, ()).unwrap();
    run_all(&store, [end("r", cause)]).await;
    let request = store.request(&id("r")).await.unwrap().unwrap();
    assert_eq!(request.end_reason(), Some(EndReason::OwnerDead));
    assert_eq!(request.ended_by, None);
}

#[tokio::test]
async fn owners_of_live_requests_are_listed_once_each_by_bytes() {
    let (_place, store) = Place::migrated().await;
    let owners = ["Z", "a", "a b", "b", "é"];
    let mut commands = vec![define("a", 100), acquire("nobodys", "a")];
    for (i, whose) in owners.iter().chain(&owners).enumerate() {
        commands.push(acquire_for(whose, &format!("r-{i}"), "a"));
    }
    commands.push(acquire_for("of what ended", "ended", "a"));
    commands.push(heartbeat("who holds nothing", 1_000));
    run_all(&store, commands).await;
    run_all(&store, [Command::release(id("ended"))]).await;
    let list = |after: Option<&str>, limit| {
        let after = after.map(owner);
        let store = &store;
        async move { store.owners(&Page { after, limit }).await.unwrap() }
    };
    assert_eq!(list(None, 100).await, owners.map(owner));
    assert_eq!(list(None, 2).await, ["Z", "a"].map(owner));
    assert_eq!(list(Some("a"), 2).await, ["a b", "b"].map(owner));
    assert_eq!(list(Some("a a"), 1).await, ["a b"].map(owner));
    assert!(list(Some("é"), 2).await.is_empty());
    assert!(list(None, 0).await.is_empty());
}

#[tokio::test]
async fn a_session_that_can_not_be_read_is_an_error_that_names_its_column() {
    let (place, store) = Place::migrated().await;
    heard(&store, "o", 1_000).await;
    let damage = "UPDATE lockhouse_owner_session SET ttl_ms = 1 << 60";
    place.connect().execute(damage, ()).unwrap();
    let error = run(&store, goodbye("o")).await.unwrap_err();
    assert!(
        error.to_string().contains("lockhouse_owner_session.ttl_ms"),
        "{error}"
    );
}
