//! Owners: their sessions, what they hold, and who ended it.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Kind, Page};
use lockhouse_core::{Cause, EndReason, Owner, Reply};
use tokio::time::sleep;

use super::words::*;
use crate::place::Place;

/// The listing is by pages. Ended requests and sessions do not count.
pub async fn owners_of_live_requests_are_listed_once_in_byte_order(place: &Place) {
    let store = place.store().await;
    let mut owners = ["b", "B", "ä", "a", "a b", "🚀", "~", "é", "ZZ"];
    let mut commands = vec![define("a", 999), acquire("nobody's", &["a"])];
    for (number, of) in owners.iter().chain(&owners).enumerate() {
        let external_id = format!("r{number}");
        commands.push(acquire_for(&external_id, &["a"], Some(of), None));
    }
    commands.push(acquire_for("ended", &["a"], Some("of an ended one"), None));
    commands.push(heartbeat("holds nothing", 60_000));
    run(&store, commands).await;
    run(&store, [release("ended")]).await;

    owners.sort_unstable();
    let (mut page, mut listed) = (first(4), Vec::<Owner>::new());
    loop {
        let more = store.owners(&page).await.unwrap();
        assert!(more.len() <= 4);
        let Some(last) = more.last() else { break };
        page.after = Some(last.clone());
        listed.extend(more);
    }
    assert_eq!(listed, owners.map(owner));
    let after = Page {
        after: Some(owner("a a")),
        limit: 1,
    };
    assert_eq!(store.owners(&after).await.unwrap(), [owner("a b")]);
    assert!(store.owners(&first(0)).await.unwrap().is_empty());
}

/// P10: an owner that has sent a heartbeat meanwhile keeps its requests.
pub async fn a_session_is_checked_again_before_its_owners_request_ends(place: &Place) {
    let store = place.store().await;
    run(
        &store,
        [define("a", 9), acquire_for("x", &["a"], Some("o"), None)],
    )
    .await;
    let owner = owner("o");
    let cause = Cause::OwnerSilent { owner };
    assert!(!ends(&store, end("x", cause.clone())).await, "no session");
    run(&store, [heartbeat("o", 60_000)]).await;
    assert!(!ends(&store, end("x", cause.clone())).await, "it was heard");
    run(&store, [heartbeat("o", 1)]).await;
    sleep(Duration::from_millis(20)).await;
    assert!(ends(&store, end("x", cause)).await);
    let ended = request(&store, "x").await;
    assert_eq!(ended.end_reason(), Some(EndReason::OwnerDead));
    assert_eq!(ended.ended_by, None);
}

/// P10: each heartbeat sets the time at which the session lapses, to a later or an earlier one, and tells it.
pub async fn a_session_lapses_at_the_time_that_its_last_heartbeat_told(place: &Place) {
    let store = place.store().await;
    let held = acquire_for("x", &["a"], Some("é"), None);
    run(&store, [define("a", 9), held, heartbeat("é", 100)]).await;
    run(&store, [heartbeat("é", 600_000)]).await;
    sleep(Duration::from_millis(120)).await;
    let cause = Cause::OwnerSilent { owner: owner("é") };
    assert!(!ends(&store, end("x", cause.clone())).await);

    let heard = outcome(&store, heartbeat("é", 300)).await.unwrap();
    let Reply::Heard { session, began } = heard else {
        panic!("{heard:?}")
    };
    assert!(!began);
    assert_eq!(session.ttl.as_ms(), 300);
    loop {
        let ended = outcome(&store, end("x", cause.clone())).await.unwrap();
        let Reply::Ended {
            request,
            now,
            decided_at,
        } = ended
        else {
            panic!("{ended:?}")
        };
        assert_eq!(now, decided_at >= session.expires_at, "{decided_at}");
        assert_eq!(now, !request.is_live());
        if now {
            break;
        }
    }
}

/// Two transactions that insert the same session can deadlock. Then one fails, or times out before the deadlock is found.
pub async fn heartbeats_at_once_of_the_same_owners_are_all_answered(place: &Place) {
    let stores = [place.store().await, place.store().await];
    let tasks = (0..8).map(|task| {
        let store = Arc::clone(&stores[task % 2]);
        tokio::spawn(async move {
            for round in 0..20 {
                let mut owners: Vec<_> = (0..12).map(|i| format!("{round}-{i}")).collect();
                fastrand::shuffle(&mut owners);
                let beats = owners[..8].iter().map(|of| heartbeat(of, 60_000));
                let batch = Batch::new(beats.collect());
                let outcomes = loop {
                    match store.transact(&batch).await {
                        Ok(outcomes) => break outcomes,
                        Err(error) => {
                            let may_be = [Kind::Conflict, Kind::Locked];
                            assert!(may_be.contains(&error.kind()), "{error}");
                        }
                    }
                };
                assert!(outcomes.iter().all(Result::is_ok));
                run(&store, [goodbye(&owners[0])]).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

pub async fn sessions_of_owners_are_compared_byte_by_byte(place: &Place) {
    let store = place.store().await;
    let owners = ["Job", "a", "job", "jób", "á"];
    for (ttl_ms, of) in (60_000..).zip(owners) {
        let heard = outcome(&store, heartbeat(of, ttl_ms)).await.unwrap();
        let Reply::Heard { session, began } = heard else {
            panic!("{heard:?}")
        };
        assert_eq!((session.owner, began), (owner(of), true));
        assert_eq!(session.ttl.as_ms(), ttl_ms);
    }
    run(&store, [goodbye("job")]).await;
    let asked = owners.map(owner);
    let mut left = store.owners_in_use(&asked).await.unwrap();
    left.sort();
    assert_eq!(left, ["Job", "a", "jób", "á"].map(owner));
}

pub async fn a_goodbye_ends_a_session_once(place: &Place) {
    let store = place.store().await;
    run(&store, ["a", "b", "c"].map(|of| heartbeat(of, 60_000))).await;
    let batch = vec![
        goodbye("a"),
        goodbye("c"),
        goodbye("d"),
        heartbeat("e", 9_000),
    ];
    let said = outcomes(&store, batch).await;
    let gone = |now| Ok(Reply::Gone { now });
    assert_eq!(said[..3], [gone(true), gone(true), gone(false)]);
    let in_use = ["a", "b", "c", "d", "e"].map(owner);
    let mut left = store.owners_in_use(&in_use).await.unwrap();
    left.sort();
    assert_eq!(left, ["b", "e"].map(owner));
    let again = vec![heartbeat("a", 1), goodbye("a"), heartbeat("a", 5_000)];
    let said = outcomes(&store, again).await;
    let Ok(Reply::Heard { session, began }) = &said[2] else {
        panic!("{said:?}")
    };
    assert!(*began);
    assert_eq!(session.ttl.as_ms(), 5_000);
}

/// P3: also if the request was granted in the same batch.
pub async fn the_caller_that_ended_a_request_is_kept(place: &Place) {
    let store = place.store().await;
    run(&store, [define("a", 9)]).await;
    let forced = |by: Option<&str>| Cause::Forced { by: by.map(owner) };
    for (external_id, by) in [("x0", None), ("x1", Some("ops")), ("x2", Some("Ops"))] {
        run(&store, [acquire(external_id, &["a"])]).await;
        assert!(ends(&store, end(external_id, forced(by))).await);
    }
    let at_once = [acquire("x3", &["a"]), end("x3", forced(Some("Ops")))];
    run(&store, at_once).await;
    let expected = [None, Some("ops"), Some("Ops"), Some("Ops")];
    for (number, by) in expected.into_iter().enumerate() {
        let external_id = format!("x{number}");
        let read = request(&store, &external_id).await;
        assert_eq!(read.end_reason(), Some(EndReason::Forced));
        assert_eq!(read.ended_by, by.map(owner));
        let Ok(Reply::Ended {
            request,
            now: false,
            decided_at,
        }) = outcome(&store, release(&external_id)).await
        else {
            panic!("{external_id} had not ended")
        };
        assert_eq!(request, read);
        assert!(Some(decided_at) >= request.released_at());
    }
}
