//! Batches of commands that differ.

use std::collections::BTreeMap;

use lockhouse_core::{Cause, Command, ExternalId, Refusal, Reply};

use super::words::*;
use crate::place::Place;

/// P5: a store may take an id for new. It finds out before it answers, also if the batch changes other rows.
pub async fn a_held_request_is_found_in_a_full_semaphore_by_a_batch_that_changes_others(
    place: &Place,
) {
    let store = place.store().await;
    run(&store, [define("full", 1), define("other", 2)]).await;
    let held = granted(&store, acquire("held", &["full"])).await;
    for (other, is_new) in [("x", true), ("x", false), ("y", true)] {
        let batch = vec![
            acquire(other, &["other"]),
            acquire("held", &["full"]),
            acquire("refused", &["full"]),
        ];
        let outcomes = outcomes(&store, batch).await;
        let now = match &outcomes[0] {
            Ok(Reply::Granted { now, .. }) => *now,
            other => panic!("{other:?}"),
        };
        assert_eq!(now, is_new, "{other}");
        match &outcomes[1] {
            Ok(Reply::Granted { request, now, .. }) => assert_eq!((request, now), (&held, &false)),
            other => panic!("{other:?}"),
        }
        assert_eq!(outcomes[2], Err(Refusal::Exhausted(vec![name("full")])));
    }
    assert_eq!(request(&store, "held").await, held);
}

/// P9: texts that mean something to a database are kept, beside columns that have no value.
pub async fn requests_that_differ_in_every_column_are_written_by_one_batch(place: &Place) {
    const TEXTS: [&str; 6] = [
        "NULL",
        "null",
        "'; --",
        r#"a"b\c{d},e"#,
        "\\x41",
        "ünï\u{1f512}",
    ];
    let store = place.store().await;
    let slotted = match define("slotted", 9) {
        Command::Define(mut definition) => {
            definition.slots = Some(true);
            Command::Define(definition)
        }
        other => other,
    };
    run(&store, [define("a", 9), define("b", 9), slotted]).await;
    let asks = TEXTS.iter().enumerate().map(|(at, text)| {
        let owner = (at % 2 == 0).then_some(*text);
        let ttl_ms = (at % 3 > 0).then_some(60_000 + at as u64);
        let on: &[&str] = match at % 3 {
            0 => &["a"],
            1 => &["slotted"],
            _ => &["a", "b", "slotted"],
        };
        acquire_for(text, on, owner, ttl_ms)
    });
    let by = Some(owner(TEXTS[3]));
    let ends = [
        end(TEXTS[0], Cause::Forced { by }),
        end(TEXTS[4], Cause::Forced { by: None }),
    ];
    let mut told: BTreeMap<ExternalId, _> = BTreeMap::new();
    for outcome in outcomes(&store, asks.chain(ends).collect()).await {
        let (Reply::Granted { request, .. } | Reply::Ended { request, .. }) = outcome.unwrap()
        else {
            panic!("neither a grant nor an end")
        };
        told.insert(request.external_id.clone(), request);
    }
    assert_eq!(told.len(), TEXTS.len());
    for (id, told) in told {
        assert_eq!(request(&store, id.as_str()).await, told);
    }
}

/// Of new requests, and of ends beside new requests.
pub async fn a_batch_of_the_largest_size_is_executed(place: &Place) {
    let store = place.store().await;
    let most = store.max_batch();
    assert!(most > 0);
    run(&store, ["a", "b"].map(|of| define(of, most as u32))).await;
    let ask = |round, number| acquire(&format!("{round}-{number}"), &["a", "b"]);
    run(&store, (0..most).map(|number| ask("first", number))).await;
    let (ends, asks) = (most.div_ceil(2), most / 2);
    let ends = (0..ends).map(|number| release(&format!("first-{number}")));
    let asks = (0..asks).map(|number| ask("second", number));
    let left = most - ends.len() + asks.len();
    let last_fence = (most + asks.len()) as u64;
    run(&store, ends.chain(asks)).await;
    for of in ["a", "b"] {
        let semaphore = semaphore(&store, of).await;
        let counted = (semaphore.in_use as usize, semaphore.fence);
        assert_eq!(counted, (left, last_fence), "{of}");
    }
    let ended = request(&store, "first-0").await;
    assert!(!ended.is_live() && ended.permits.len() == 2);
}

/// On some databases two transactions deadlock that insert the same missing row.
pub async fn a_name_that_many_define_at_once_is_created_once(place: &Place) {
    let stores = [place.store().await, place.store().await];
    for called in ('a'..='j').map(String::from) {
        let created = true_of_eight(&stores, |store| {
            let define = define(&called, 3);
            async move {
                let defined = outcome(&store, define).await.unwrap();
                matches!(defined, Reply::Defined { created: true, .. })
            }
        });
        assert_eq!(created.await, 1, "{called}");
        assert_eq!(semaphore(&stores[0], &called).await.capacity.value(), 3);
    }
}
