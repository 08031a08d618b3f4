//! Listings are in byte order and come by pages.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{ExternalId, Owner, Refusal, SemaphoreName};

use super::{ask, grant, name, owned_by, refusal};
use crate::place::Place;

/// Bytes, not letters.
pub async fn semaphores_are_listed_in_byte_order_by_pages(place: &Place) {
    let lockhouse = place.client().await;
    let mut names = [
        "b", "a", "B", "ä", "a b", "a-b", "aa", "日", "🦀", "0", "\u{ff5e}", "~",
    ];
    for name in names {
        lockhouse.define(name, 1).await.unwrap();
    }
    lockhouse.define("a0-deleted", 1).await.unwrap();
    lockhouse.delete("a0-deleted").await.unwrap();
    names.sort_unstable();

    for limit in [1, 5, 1000] {
        let mut seen: Vec<_> = Vec::new();
        loop {
            let after = seen.last();
            let page = lockhouse.semaphores(after, limit).await.unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|status| status.semaphore.name));
        }
        assert!(seen.iter().map(|name| name.as_str()).eq(names), "{seen:?}");
    }
}

/// Of one semaphore, or of all; live ones only.
pub async fn holders_are_listed_by_pages(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 20).await.unwrap();
    lockhouse.define("t", 20).await.unwrap();
    let grants = (0..10).map(|i| {
        let on: &[(&str, u32)] = if i % 2 == 0 {
            &[("s", 1)]
        } else {
            &[("s", 1), ("t", 2)]
        };
        let lockhouse = &lockhouse;
        async move { grant(lockhouse, &format!("r{i}"), on).await.unwrap() }
    });
    let mut granted = join_all(grants).await;
    granted.remove(3);
    lockhouse.release("r3").await.unwrap();

    let (s, t) = (name("s"), name("t"));
    for (on, expected) in [(Some(&s), 9), (Some(&t), 4), (None, 9)] {
        let mut seen: Vec<lockhouse::Request> = Vec::new();
        loop {
            let after = seen.last().map(|request| request.external_id.clone());
            let page = lockhouse.holders(on, after.as_ref(), 3).await.unwrap();
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen.len(), expected);
        assert!(
            seen.iter().all(|request| granted.contains(request)),
            "whole requests"
        );
        assert!(seen.is_sorted_by_key(|request| request.external_id.clone()));
    }
}

/// An owner's live requests, on one semaphore or on any. Owners are compared byte by byte.
pub async fn live_requests_are_listed_by_owner(place: &Place) {
    let lockhouse = place.client().await;
    for semaphore in ["s", "t"] {
        lockhouse.define(semaphore, 20).await.unwrap();
    }
    type Permits = &'static [(&'static str, u32)];
    let holds: [(&str, &str, Permits); 7] = [
        ("a", "job", &[("s", 1)]),
        ("b", "job", &[("t", 1)]),
        ("c", "job", &[("s", 1), ("t", 1)]),
        ("d", "Job", &[("s", 1)]),
        ("e", "job ü/&?=", &[("t", 1)]),
        ("f", "job", &[("s", 1)]),
        ("g", "job", &[("s", 1)]),
    ];
    for (id, owner, on) in holds {
        let held = owned_by(ask(id, on), owner);
        lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    }
    grant(&lockhouse, "nobody's", &[("s", 1)]).await.unwrap();
    lockhouse.release("f").await.unwrap();

    let (s, t) = (name("s"), name("t"));
    type Listed<'a> = (&'a str, Option<&'a SemaphoreName>, &'a [&'a str]);
    let expected: [Listed<'_>; 7] = [
        ("job", None, &["a", "b", "c", "g"]),
        ("job", Some(&s), &["a", "c", "g"]),
        ("job", Some(&t), &["b", "c"]),
        ("Job", None, &["d"]),
        ("Job", Some(&t), &[]),
        ("job ü/&?=", Some(&t), &["e"]),
        ("unknown", None, &[]),
    ];
    for (owner, on, expected) in expected {
        let by = Owner::parse(owner).unwrap();
        for limit in [1, 2, 1000] {
            let mut seen: Vec<ExternalId> = Vec::new();
            loop {
                let after = seen.last();
                let page = lockhouse.held_by(&by, on, after, limit).await.unwrap();
                if page.is_empty() {
                    break;
                }
                assert!(
                    page.iter()
                        .all(|request| request.owner.as_ref() == Some(&by))
                );
                seen.extend(page.into_iter().map(|request| request.external_id));
            }
            seen.sort();
            let seen = seen.iter().map(ExternalId::as_str);
            assert!(seen.eq(expected.iter().copied()), "{owner} {on:?}");
        }
    }
    let unknown = Refusal::UnknownSemaphore(vec![name("none")]);
    let by = Owner::parse("job").unwrap();
    let refused = lockhouse.held_by(&by, Some(&name("none")), None, 1).await;
    assert_eq!(refusal(refused), unknown);
}

/// Newest first, and no more than asked for.
pub async fn history_is_newest_first(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("other", 1).await.unwrap();
    lockhouse.define("other", 2).await.unwrap();
    for capacity in 1..=6 {
        lockhouse.define("s", capacity).await.unwrap();
    }
    let history = lockhouse.history("s", 3).await.unwrap();
    let capacities = history.iter().map(|change| change.new_capacity.value());
    assert!(capacities.eq([6, 5, 4]));
    assert_eq!(lockhouse.history("s", 1000).await.unwrap().len(), 5);
}
