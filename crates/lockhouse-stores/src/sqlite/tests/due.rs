use std::time::Duration;

use lockhouse_core::store::{Due, Upkeep as _};
use lockhouse_core::{EndReason, State, Timestamp};

use super::*;

const ALL: u32 = 100;

/// Sets back the times at which what `condition` is true of expires.
fn let_pass(place: &Place, table: &str, condition: &str) {
    let sql = format!("UPDATE {table} SET expires_at = 1 WHERE {condition}");
    place.connect().execute(&sql, ()).unwrap();
}

/// `a-late` and `b-late` past their time, `a-silent` and `ab-silent` of a silent owner; others.
async fn place_with_lapsed() -> (Place, Sqlite) {
    let (place, store) = Place::migrated().await;
    let both = Ask::new(
        id("ab-silent"),
        ["a", "b"].map(|semaphore| (name(semaphore), Count::ONE)),
    );
    let mut both = both.unwrap();
    both.owner = Some(owner("silent"));
    run_all(
        &store,
        [
            define("a", 9),
            define("b", 9),
            define("c", 9),
            acquire("a-late", "a"),
            acquire("b-late", "b"),
            acquire("a-in-time", "a"),
            acquire("a-ended", "a"),
            acquire_for("silent", "a-silent", "a"),
            Command::acquire(both),
            acquire_for("silent", "a-silent-ended", "a"),
            acquire_for("heard", "a-heard", "a"),
            acquire_for("never heard", "a-never-heard", "a"),
            heartbeat("silent", 1_000),
            heartbeat("heard", 60_000),
            heartbeat("silent, with nothing", 1_000),
        ],
    )
    .await;
    run_all(
        &store,
        ["a-ended", "a-silent-ended"].map(|ended| Command::release(id(ended))),
    )
    .await;
    let late = "external_id IN ('a-late', 'b-late', 'a-ended')";
    let_pass(&place, "lockhouse_permit_request", late);
    let_pass(&place, "lockhouse_owner_session", "owner LIKE 'silent%'");
    (place, store)
}

async fn lapsed(store: &Sqlite, on: Option<&[SemaphoreName]>) -> Vec<String> {
    let due = store.due(Due::Lapsed { on }, ALL).await.unwrap();
    let mut ids: Vec<_> = ids(&due).into_iter().map(str::to_owned).collect();
    ids.sort();
    ids
}

/// P10
#[tokio::test]
async fn those_past_their_time_and_those_of_silent_owners_are_lapsed() {
    let (_place, store) = place_with_lapsed().await;
    let expected = ["a-late", "a-silent", "ab-silent", "b-late"];
    assert_eq!(lapsed(&store, None).await, expected);
    for limit in 0..=4 {
        let due = Due::Lapsed { on: None };
        let some = store.due(due, limit).await.unwrap();
        assert_eq!(some.len(), limit as usize);
    }
}

#[tokio::test]
async fn lapsed_on_some_semaphores_are_those_that_hold_any_of_them() {
    let (_place, store) = place_with_lapsed().await;
    let [a, b, c, unknown] = ["a", "b", "c", "no \"such"].map(name);
    let on_b = [b.clone(), unknown.clone()];
    assert_eq!(lapsed(&store, Some(&on_b)).await, ["ab-silent", "b-late"]);
    let on_both = [a, b];
    let all = lapsed(&store, None).await;
    assert_eq!(lapsed(&store, Some(&on_both)).await, all);
    for on in [&[c][..], &[unknown], &[]] {
        assert!(lapsed(&store, Some(on)).await.is_empty());
    }
}

/// P10
#[tokio::test]
async fn one_past_its_time_whose_owner_is_silent_is_found_once() {
    let (place, store) = place_with_lapsed().await;
    let_pass(
        &place,
        "lockhouse_permit_request",
        "external_id = 'a-silent'",
    );
    let expected = ["a-late", "a-silent", "ab-silent", "b-late"];
    assert_eq!(lapsed(&store, None).await, expected);
}

/// P10
#[tokio::test]
async fn what_is_found_lapsed_is_ended_and_then_found_no_more() {
    let (_place, store) = place_with_lapsed().await;
    let due = store.due(Due::Lapsed { on: None }, ALL).await.unwrap();
    let commands = due.iter().map(|request| {
        let cause = match &request.owner {
            Some(owner) => Cause::OwnerSilent {
                owner: owner.clone(),
            },
            None => Cause::Expired,
        };
        end(request.external_id.as_str(), cause)
    });
    run_all(&store, commands).await;
    assert!(lapsed(&store, None).await.is_empty());
    let silent = store.request(&id("ab-silent")).await.unwrap().unwrap();
    assert_eq!(silent.end_reason(), Some(EndReason::OwnerDead));
    assert_eq!(silent.permits.len(), 2);
    let late = store.request(&id("a-late")).await.unwrap().unwrap();
    assert_eq!(late.end_reason(), Some(EndReason::Expired));
}

#[tokio::test]
async fn the_oldest_without_a_time_to_live_are_stale() {
    let (place, store) = Place::migrated().await;
    run_all(
        &store,
        [
            define("a", 9),
            acquire("with-ttl", "a"),
            acquire_for("o", "new", "a"),
            acquire_for("o", "old", "a"),
            acquire_for("o", "older", "a"),
            acquire_for("o", "old-but-ended", "a"),
            acquire_for("heard", "old-but-kept", "a"),
            acquire_for("silent", "old-of-silent", "a"),
            heartbeat("heard", 60_000),
            heartbeat("silent", 60_000),
        ],
    )
    .await;
    run_all(&store, [Command::release(id("old-but-ended"))]).await;
    let change = "UPDATE lockhouse_permit_request SET created_at = CASE external_id
        WHEN 'old-but-kept' THEN 0 WHEN 'older' THEN 1 WHEN 'old-of-silent' THEN 3
        ELSE 2 END WHERE external_id <> 'new'";
    place.connect().execute(change, ()).unwrap();
    let_pass(&place, "lockhouse_owner_session", "owner = 'silent'");
    let stale = async |age, limit| store.stale(age, &first(limit)).await.unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(
        ids(&stale(day, ALL).await.requests),
        ["older", "old", "old-of-silent"]
    );
    let (one, more) = (stale(day, 1).await, stale(day, 3).await);
    assert_eq!(one.looked_to, Timestamp::from_microsecond(0).ok());
    assert!(one.requests.is_empty(), "the oldest is kept");
    assert_eq!(ids(&more.requests), ["older", "old"]);
    let rest = Page {
        after: more.looked_to,
        limit: 3,
    };
    let rest = store.stale(day, &rest).await.unwrap();
    assert_eq!(ids(&rest.requests), ["old-of-silent"]);
    assert_eq!(rest.looked_to, None);
    assert_eq!(stale(Duration::ZERO, ALL).await.requests.len(), 4);
    assert!(stale(Duration::MAX, ALL).await.requests.is_empty());
}

#[tokio::test]
async fn what_an_owner_holds_is_found_whole_and_live() {
    let (_place, store) = Place::migrated().await;
    run_all(
        &store,
        [
            define("a", 9),
            acquire("nobodys", "a"),
            acquire_for("o", "r-1", "a"),
            acquire_for("o", "r-2", "a"),
            acquire_for("o", "ended", "a"),
            acquire_for("O", "of-another", "a"),
        ],
    )
    .await;
    run_all(&store, [Command::release(id("ended"))]).await;
    let mut held = store.due(Due::OwnedBy(&owner("o")), ALL).await.unwrap();
    held.sort_by(|a, b| a.external_id.cmp(&b.external_id));
    assert_eq!(ids(&held), ["r-1", "r-2"]);
    assert_eq!(held[0].permits[0].semaphore, name("a"));
    assert!(held.iter().all(|request| request.state == State::Acquired));
    let one = store.due(Due::OwnedBy(&owner("o")), 1).await.unwrap();
    assert_eq!(one.len(), 1);
}
