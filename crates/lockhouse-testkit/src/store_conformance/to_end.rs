//! The requests that [`Maintenance::due`](lockhouse_core::store::Maintenance::due) and [`stale`](lockhouse_core::store::Maintenance::stale) find.

use std::time::Duration;

use lockhouse_core::store::Due;
use lockhouse_core::{Cause, EndReason};
use tokio::time::sleep;

use super::words::*;
use crate::place::Place;

const LAPSED: Due<'_> = Due::Lapsed { on: None };

/// Requests on `a`, on `b` and on both: live ones, expired ones, ones of a silent owner, and ones that are both. `c` has
/// none.
async fn various(place: &Place) -> Store {
    let store = place.store().await;
    let mut commands = vec![define("a", 999), define("b", 999), define("c", 999)];
    for (of, on) in [("a", &["a"][..]), ("b", &["b"]), ("ab", &["a", "b"])] {
        let acquire = |what: &str, by, ttl_ms| {
            let external_id = format!("{of}-{what}");
            acquire_for(&external_id, on, Some(by), ttl_ms)
        };
        commands.extend([
            acquire("live", "heard", Some(60_000)),
            acquire("endless", "no session", None),
            acquire("kept", "heard", None),
            acquire("expired", "heard", Some(1)),
            acquire("silent", "silent", None),
            acquire("both", "silent", Some(1)),
            acquire("ended", "silent", Some(60_000)),
        ]);
    }
    commands.extend([heartbeat("heard", 600_000), heartbeat("silent", 1)]);
    commands.push(heartbeat("silent, holds nothing", 1));
    run(&store, commands).await;
    run(
        &store,
        ["a", "b", "ab"].map(|of| release(&format!("{of}-ended"))),
    )
    .await;
    sleep(Duration::from_millis(20)).await;
    store
}

fn lapsed_of(those: &[&str]) -> Vec<String> {
    let mut ids: Vec<_> = those
        .iter()
        .flat_map(|of| ["both", "expired", "silent"].map(|why| format!("{of}-{why}")))
        .collect();
    ids.sort();
    ids
}

/// P10: each is found once, with all its permits.
pub async fn lapsed_requests_are_found_by_their_time_and_their_owners_session(place: &Place) {
    let store = various(place).await;
    let due = store.due(LAPSED, ALL).await.unwrap();
    assert_eq!(ids(&due), lapsed_of(&["a", "ab", "b"]));
    for found in due {
        let read = store.request(&found.external_id).await.unwrap();
        assert_eq!(read, Some(found));
    }
}

pub async fn lapsed_requests_are_found_on_the_semaphores_asked_for(place: &Place) {
    let store = various(place).await;
    for (on, expected) in [
        (&["a"][..], lapsed_of(&["a", "ab"])),
        (&["b", "c", "no \"such"], lapsed_of(&["ab", "b"])),
        (&["a", "b"], lapsed_of(&["a", "ab", "b"])),
        (&["c", "no \"such"], Vec::new()),
        (&[], Vec::new()),
    ] {
        let names: Vec<_> = on.iter().map(|on| name(on)).collect();
        let due = Due::Lapsed { on: Some(&names) };
        let found = store.due(due, ALL).await.unwrap();
        assert_eq!(ids(&found), expected, "on {on:?}");
        let whole = |request: &&lockhouse_core::Request| {
            request.external_id.as_str().starts_with("ab") != (request.permits.len() == 2)
        };
        assert_eq!(found.iter().find(whole), None, "permits on others, too");
    }
}

pub async fn a_look_finds_at_most_its_limit_and_each_request_once(place: &Place) {
    let store = various(place).await;
    let both = ["a", "b"].map(name);
    for limit in [0, 1, 2, 5, 8, 9] {
        for on in [None, Some(&both[..])] {
            let due = store.due(Due::Lapsed { on }, limit).await.unwrap();
            let mut distinct = ids(&due);
            distinct.dedup();
            assert_eq!(distinct.len(), limit as usize, "{limit} on {on:?}");
        }
    }
    let silent = owner("silent");
    let owned = store.due(Due::OwnedBy(&silent), 2).await.unwrap();
    assert_eq!(owned.len(), 2);
}

/// P3, P10
pub async fn lapsed_requests_that_ended_are_not_found_again(place: &Place) {
    let store = various(place).await;
    let due = store.due(LAPSED, ALL).await.unwrap();
    for found in &due {
        let external_id = found.external_id.as_str();
        let (cause, reason) = match external_id.ends_with("-silent") {
            true => {
                let owner = owner("silent");
                (Cause::OwnerSilent { owner }, EndReason::OwnerDead)
            }
            false => (Cause::Expired, EndReason::Expired),
        };
        assert!(ends(&store, end(external_id, cause.clone())).await);
        assert!(!ends(&store, end(external_id, cause)).await);
        let ended = request(&store, external_id).await;
        assert_eq!(ended.end_reason(), Some(reason));
        assert_eq!(ended.permits, found.permits);
    }
    assert!(store.due(LAPSED, ALL).await.unwrap().is_empty());
}

pub async fn live_requests_of_an_owner_are_found(place: &Place) {
    let store = various(place).await;
    let owned = async |of: &str| {
        let of = owner(of);
        let owned = store.due(Due::OwnedBy(&of), ALL).await.unwrap();
        assert!(owned.iter().all(lockhouse_core::Request::is_live));
        ids(&owned).join(" ")
    };
    assert_eq!(owned("no session").await, "a-endless ab-endless b-endless");
    assert_eq!(
        owned("No session").await,
        "",
        "owners are compared by bytes"
    );
    run(&store, [release("ab-endless")]).await;
    assert_eq!(owned("no session").await, "a-endless b-endless");
}

/// Requests of a silent owner and of an owner without a session are stale. Requests that a session keeps, or that have a
/// TTL, are not.
pub async fn the_oldest_requests_without_a_ttl_are_stale(place: &Place) {
    let store = various(place).await;
    let between = Between::calls().await;
    run(
        &store,
        [acquire_for("new", &["a"], Some("no session"), None)],
    )
    .await;
    let stale = async |age| store.stale(age, &first(ALL)).await.unwrap().requests;
    let old = stale(between.age()).await;
    let expected = [
        "a-endless",
        "a-silent",
        "ab-endless",
        "ab-silent",
        "b-endless",
        "b-silent",
    ];
    assert_eq!(ids(&old), expected);
    assert_eq!(stale(Duration::ZERO).await.len(), expected.len() + 1);
    for age in [HOUR, Duration::MAX] {
        assert!(stale(age).await.is_empty(), "{age:?}");
    }
}

/// Requests of one moment are read together. Requests that a session keeps are skipped.
pub async fn stale_requests_are_found_piece_by_piece(place: &Place) {
    let store = place.store().await;
    let mut commands = vec![define("a", 999), heartbeat("heard", 600_000)];
    for group in 0..4 {
        for (by, what) in [("o", "stale"), ("heard", "kept")] {
            let external_id = format!("{group}-{what}");
            commands.push(acquire_for(&external_id, &["a"], Some(by), None));
        }
        run(&store, commands.drain(..)).await;
        sleep(Duration::from_millis(5)).await;
    }
    for limit in [1, 2, 3, 8] {
        let (mut page, mut found) = (first(limit), Vec::new());
        loop {
            let look = store.stale(Duration::ZERO, &page).await.unwrap();
            found.extend(look.requests);
            assert!(look.looked_to > page.after || look.looked_to.is_none());
            page.after = look.looked_to;
            if page.after.is_none() {
                break;
            }
        }
        let expected = ["0-stale", "1-stale", "2-stale", "3-stale"];
        assert_eq!(ids(&found), expected, "{limit} at a time");
    }
    let none = store.stale(Duration::ZERO, &first(0)).await.unwrap();
    assert!(none.requests.is_empty() && none.looked_to.is_none());
}
