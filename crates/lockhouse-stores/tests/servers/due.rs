//! Finding due requests by a read without locks.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Batch, Due, Page};

use crate::database::{
    Database, Served, acquire, acquire_for, define, granted, heartbeat, ids, name, on_every_server,
    one, owner, release,
};

on_every_server! {
    what_has_lapsed_is_found_by_its_time_and_by_its_owners_session,
    what_has_lapsed_is_found_on_the_semaphores_that_are_asked_for,
    what_is_held_for_long_without_a_time_to_live_is_stale,
    the_oldest_are_looked_at_piece_by_piece,
    what_is_an_owners_is_found_while_it_is_live,
    at_most_so_many_are_found_and_each_once,
    looking_for_what_is_due_waits_for_no_lock,
}

const LAPSED: Due<'_> = Due::Lapsed { on: None };

/// On `a`, `b`, and both: one live, one that has expired, one of a silent owner, one that is both.
async fn various(database: &Database) -> Served {
    let store = database.migrated().await;
    let mut commands = vec![define("a", 999), define("b", 999), define("c", 999)];
    for (of, on) in [("a", &["a"][..]), ("b", &["b"]), ("ab", &["a", "b"])] {
        commands.extend([
            acquire_for(format!("{of}-live"), on, "heard", Some(60_000)),
            acquire_for(format!("{of}-for-ever"), on, "unheard of", None),
            acquire_for(format!("{of}-nobody's"), on, "heard", None),
            acquire_for(format!("{of}-expired"), on, "heard", Some(1)),
            acquire_for(format!("{of}-silent"), on, "silent", None),
            acquire_for(format!("{of}-both"), on, "silent", Some(1)),
            acquire_for(format!("{of}-over"), on, "silent", Some(60_000)),
        ]);
    }
    commands.extend([heartbeat("heard", 60_000), heartbeat("silent", 1)]);
    commands.push(heartbeat("silent, too", 1));
    for outcome in store.transact(&Batch::new(commands)).await.unwrap() {
        outcome.unwrap();
    }
    for of in ["a", "b", "ab"] {
        let over = one(&store, release(format!("{of}-over"))).await.unwrap();
        over.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    store
}

fn first<K>(limit: u32) -> Page<K> {
    Page { after: None, limit }
}

async fn what_has_lapsed_is_found_by_its_time_and_by_its_owners_session(database: &Database) {
    let store = various(database).await;
    let due = store.due(LAPSED, 99).await.unwrap();
    let mut expected = Vec::new();
    for of in ["a", "ab", "b"] {
        expected.extend(["both", "expired", "silent"].map(|why| format!("{of}-{why}")));
    }
    expected.sort();
    assert_eq!(ids(&due), expected);
    for request in due {
        let read = store.request(&request.external_id).await.unwrap();
        assert_eq!(read, Some(request), "whole, with all its permits");
    }
}

async fn what_has_lapsed_is_found_on_the_semaphores_that_are_asked_for(database: &Database) {
    let store = various(database).await;
    let due = async |on: &[&str]| {
        let on: Vec<_> = on.iter().map(|on| name(on)).collect();
        store.due(Due::Lapsed { on: Some(&on) }, 99).await.unwrap()
    };
    let on_a = due(&["a"]).await;
    let expected = [
        "ab-both",
        "ab-expired",
        "ab-silent",
        "a-both",
        "a-expired",
        "a-silent",
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(ids(&on_a), expected);
    assert_eq!(on_a[3].permits.len(), 2, "those on others, too");
    assert_eq!(due(&["a", "b"]).await.len(), 9);
    assert_eq!(due(&["b", "c", "unknown"]).await.len(), 6);
    assert!(due(&["c", "unknown"]).await.is_empty());
    assert!(due(&[]).await.is_empty());
}

async fn what_is_held_for_long_without_a_time_to_live_is_stale(database: &Database) {
    let store = various(database).await;
    let hour = Duration::from_secs(3600);
    let stale = async |age| store.stale(age, &first(99)).await.unwrap().requests;
    assert!(stale(hour).await.is_empty());
    assert!(stale(Duration::MAX).await.is_empty());
    database
        .session()
        .await
        .run(
            "UPDATE lockhouse_permit_request SET created_at=created_at-INTERVAL '2' HOUR \
         WHERE external_id LIKE 'a-%'",
        )
        .await;
    assert_eq!(
        ids(&stale(hour).await),
        ["a-for-ever", "a-silent"],
        "a session keeps one"
    );
    assert_eq!(stale(Duration::ZERO).await.len(), 6);
}

/// Those of one moment are looked at together, and those that a session keeps are passed.
async fn the_oldest_are_looked_at_piece_by_piece(database: &Database) {
    let store = various(database).await;
    let made = "UPDATE lockhouse_permit_request SET created_at=CASE \
        WHEN external_id LIKE 'a-%' THEN created_at-INTERVAL '3' HOUR \
        WHEN external_id LIKE 'ab-%' THEN created_at-INTERVAL '2' HOUR ELSE created_at END";
    database.session().await.run(made).await;
    let hour = Duration::from_secs(3600);
    for limit in [1, 2, 3, 5] {
        let (mut page, mut pieces) = (first(limit), Vec::new());
        loop {
            let look = store.stale(hour, &page).await.unwrap();
            let found = ids(&look.requests).into_iter().map(str::to_owned);
            pieces.push(found.collect::<Vec<_>>());
            assert!(look.looked_to > page.after || look.looked_to.is_none());
            page.after = look.looked_to;
            if page.after.is_none() {
                break;
            }
        }
        let expected = [["a-for-ever", "a-silent"], ["ab-for-ever", "ab-silent"]];
        pieces.retain(|piece| !piece.is_empty());
        if limit <= 3 {
            // Three of each have no time to live.
            assert_eq!(pieces, expected, "{limit} at a time");
        } else {
            assert_eq!(pieces, [expected.concat()], "{limit} at a time");
        }
    }
    let none = store.stale(hour, &first(0)).await.unwrap();
    assert!(none.requests.is_empty() && none.looked_to.is_none());
}

async fn what_is_an_owners_is_found_while_it_is_live(database: &Database) {
    let store = various(database).await;
    let unheard_of = owner("unheard of");
    let owned = store.due(Due::OwnedBy(&unheard_of), 99).await.unwrap();
    let mut expected = ["a-for-ever", "ab-for-ever", "b-for-ever"];
    expected.sort_unstable();
    assert_eq!(ids(&owned), expected);
    let other = owner("Unheard of");
    assert!(
        store
            .due(Due::OwnedBy(&other), 99)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn at_most_so_many_are_found_and_each_once(database: &Database) {
    let store = various(database).await;
    let (a, b) = (name("a"), name("b"));
    let both = [a, b];
    for limit in [0, 1, 2, 5, 8, 9] {
        for on in [None, Some(&both[..])] {
            let due = store.due(Due::Lapsed { on }, limit).await.unwrap();
            assert_eq!(due.len(), limit as usize, "{on:?}");
            let mut distinct = ids(&due);
            distinct.dedup();
            assert_eq!(distinct.len(), due.len());
        }
    }
    let silent = owner("silent");
    assert_eq!(store.due(Due::OwnedBy(&silent), 2).await.unwrap().len(), 2);
}

async fn looking_for_what_is_due_waits_for_no_lock(database: &Database) {
    let store = various(database).await;
    granted(one(&store, acquire("x", &["c"])).await.unwrap());
    let mut other = database.session().await;
    other
        .run(
            "START TRANSACTION; UPDATE lockhouse_semaphore SET fence=fence+1; \
         UPDATE lockhouse_permit_request SET expires_at='2020-01-01'; \
         UPDATE lockhouse_permit SET fence=fence+1; \
         UPDATE lockhouse_owner_session SET expires_at='2020-01-01'",
        )
        .await;
    let started = Instant::now();
    let on = [name("a"), name("c")];
    assert_eq!(store.due(LAPSED, 99).await.unwrap().len(), 9);
    let on = Due::Lapsed { on: Some(&on) };
    assert_eq!(store.due(on, 99).await.unwrap().len(), 6);
    assert!(started.elapsed() < Duration::from_secs(3));
    other.run("ROLLBACK").await;
}
