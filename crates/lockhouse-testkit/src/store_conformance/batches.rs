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
