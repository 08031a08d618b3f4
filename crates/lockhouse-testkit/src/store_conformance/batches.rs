//! Batches of commands that differ.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockhouse_core::store::{Batch, Holders};
use lockhouse_core::{Ask, Cause, Command, Count, ExternalId, Footprint, Refusal, Reply, Ttl};
use tokio::time::timeout;

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

pub async fn an_answer_is_what_is_read_later(place: &Place) {
    let store = place.store().await;
    let defined = outcome(&store, define("a", 5)).await.unwrap();
    let read = Reply::Defined {
        semaphore: semaphore(&store, "a").await,
        created: true,
    };
    assert_eq!(defined, read);

    let two = [(name("a"), Count::new(2).unwrap())];
    let mut ask = Ask::new(id("r"), two).unwrap();
    ask.owner = Some(owner("host 7"));
    let told = granted(&store, Command::acquire(ask)).await;
    assert_eq!(told, request(&store, "r").await);

    let renew = Command::Renew {
        external_id: id("r"),
        ttl: Some(Ttl::from_ms(60_000).unwrap()),
        by: None,
    };
    let renewed = outcome(&store, renew).await.unwrap();
    assert_eq!(renewed, Reply::Renewed(request(&store, "r").await));

    let by = Some(owner("operator"));
    let force = end("r", Cause::Forced { by: by.clone() });
    let ended = outcome(&store, force).await.unwrap();
    let read = request(&store, "r").await;
    assert_eq!(read.ended_by, by);
    let told = Reply::Ended {
        decided_at: read.released_at().unwrap(),
        request: read,
        now: true,
    };
    assert_eq!(ended, told);
    let holders = Holders::on(name("a"));
    let held = store.holders(&holders, &first(ALL)).await.unwrap();
    assert!(held.requests.is_empty());
}

/// P5: a store may insert many rows by one statement.
pub async fn each_request_of_a_batch_has_its_own_permits(place: &Place) {
    let store = place.store().await;
    run(&store, ["a", "b", "c"].map(|of| define(of, 1_000))).await;
    for many in [1, 2, 3, 9, 33, 34, 76] {
        let asks = (0..many).map(|i| {
            let counts = [("a", 3), ("b", 2), ("c", 5)].into_iter().skip(i % 3);
            let permits = counts.map(|(semaphore, by)| {
                let count = Count::new(1 + i as u32 % by).unwrap();
                (name(semaphore), count)
            });
            Command::acquire(Ask::new(id(&format!("{many}-{i}")), permits).unwrap())
        });
        for outcome in outcomes(&store, asks.collect()).await {
            let Ok(Reply::Granted { request, .. }) = outcome else {
                panic!("not granted: {outcome:?}")
            };
            let read = store.request(&request.external_id).await.unwrap();
            assert_eq!(read, Some(request));
        }
        assert!(store.recount().await.unwrap().findings().is_empty());
    }
}

pub async fn a_batch_of_requests_on_many_semaphores_is_executed(place: &Place) {
    let store = place.store().await;
    let names: Vec<_> = (0..64).map(|i| format!("s-{i:02}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    run(&store, names.iter().map(|name| define(name, 1_000))).await;
    run(&store, (0..600).map(|i| acquire(&format!("r-{i}"), &names))).await;
    run(&store, (0..600).map(|i| release(&format!("r-{i}")))).await;
    for semaphore in store.semaphores(None, &first(ALL)).await.unwrap() {
        assert_eq!((semaphore.in_use, semaphore.fence), (0, 600));
    }
}

/// The footprint of the batch has only the semaphore of its ask.
pub async fn a_release_finds_the_semaphores_that_it_does_not_name(place: &Place) {
    let store = place.store().await;
    run(&store, ["a", "b"].map(|of| define(of, 1))).await;
    run(&store, [acquire("x", &["a", "b"])]).await;
    let commands = vec![release("x"), acquire("y", &["b"])];
    let batch = Batch {
        footprint: Footprint::of(&commands, []),
        commands,
    };
    let outcomes = outcomes_of(&store, &batch).await;
    assert!(matches!(outcomes[0], Ok(Reply::Ended { now: true, .. })));
    assert_eq!(semaphore(&store, "a").await.in_use, 0);
    assert_eq!(semaphore(&store, "b").await.in_use, 1);
}

/// P1
pub async fn calls_at_once_are_granted_no_more_than_there_is(place: &Place) {
    let stores = [place.store().await, place.store().await];
    let number = AtomicU32::new(0);
    for called in ["a", "b", "c", "d", "e"] {
        run(&stores[0], [define(called, 3)]).await;
        let granted = true_of_eight(&stores, |store| {
            let external_id = number.fetch_add(1, Ordering::Relaxed).to_string();
            async move {
                outcome(&store, acquire(&external_id, &[called]))
                    .await
                    .is_ok()
            }
        });
        assert_eq!(granted.await, 3, "{called}");
        assert_eq!(semaphore(&stores[0], called).await.in_use, 3);
    }
}

/// P2: each call has an effect in full or not at all.
pub async fn a_call_that_is_dropped_leaves_the_store_usable(place: &Place) {
    let store = place.store().await;
    run(&store, [define("a", 100)]).await;
    for i in 0..50 {
        let external_id = format!("dropped-{i}");
        let call = outcome(&store, acquire(&external_id, &["a"]));
        let _ = timeout(Duration::from_micros(i * 50), call).await;
    }
    run(&store, [acquire("x", &["a"])]).await;
    let findings = store.recount().await.unwrap().findings();
    assert!(findings.is_empty(), "{findings:?}");
}
