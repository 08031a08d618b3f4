//! Listings by pages: semaphores in byte order, requests in an order that the store chooses.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{ExternalId, Owner, Refusal, SemaphoreName};

use super::steps::{ask, grant, name, owned_by, refusal, with_ttl};
use crate::place::Place;

/// The order is that of bytes, not of letters.
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

/// Prefixes are compared by bytes, also if they end with a character that has no next one.
pub async fn semaphores_are_listed_by_prefix(place: &Place) {
    let lockhouse = place.client().await;
    let mut names = [
        "a",
        "a/",
        "a/1",
        "a/2",
        "a/é",
        "a0",
        "A/1",
        "b",
        "é",
        "é1",
        "\u{10ffff}",
        "\u{10ffff}1",
        "a/🦀",
        "a b",
        "a'b",
        "a%",
        "a_",
    ];
    for name in names {
        lockhouse.define(name, 1).await.unwrap();
    }
    lockhouse.define("a/deleted", 1).await.unwrap();
    lockhouse.delete("a/deleted").await.unwrap();
    names.sort_unstable();

    for prefix in [
        "",
        "a",
        "a/",
        "a/1",
        "a ",
        "a%",
        "a_",
        "a'",
        "é",
        "\u{10ffff}",
        "z",
        "A",
    ] {
        let expected = names.iter().filter(|name| name.starts_with(prefix));
        let expected: Vec<_> = expected.copied().collect();
        for limit in [1, 2, 1000] {
            let mut seen: Vec<SemaphoreName> = Vec::new();
            loop {
                let after = seen.last();
                let page = lockhouse.semaphores_with_prefix(prefix, after, limit);
                let page = page.await.unwrap();
                if page.is_empty() {
                    break;
                }
                seen.extend(page.into_iter().map(|status| status.semaphore.name));
            }
            let seen: Vec<_> = seen.iter().map(SemaphoreName::as_str).collect();
            assert_eq!(seen, expected, "{prefix:?}, {limit}");
        }
    }
    let before = name("A/1");
    let listed = lockhouse
        .semaphores_with_prefix("a/", Some(&before), 1)
        .await;
    assert_eq!(listed.unwrap()[0].semaphore.name.as_str(), "a/");
    let listed = lockhouse
        .semaphores_with_prefix("a/", Some(&name("b")), 1)
        .await;
    assert!(listed.unwrap().is_empty());
}

/// The live requests on one semaphore, or on all.
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
        let mut after = None;
        loop {
            let page = lockhouse.holders(on, after, 3).await.unwrap();
            assert!(page.requests.len() <= 3);
            seen.extend(page.requests);
            match page.next {
                None => break,
                next => after = next,
            }
        }
        assert_eq!(seen.len(), expected);
        assert!(
            seen.iter().all(|request| granted.contains(request)),
            "whole requests"
        );
        seen.sort_by_key(|request| request.external_id.clone());
        seen.dedup_by_key(|request| request.external_id.clone());
        assert_eq!(seen.len(), expected, "each once");
    }
}

/// Meanwhile other requests are granted, renewed and ended.
pub async fn a_request_held_throughout_a_walk_is_listed_once(place: &Place) {
    let lockhouse = place.client().await;
    for semaphore in ["s", "t", "u"] {
        lockhouse.define(semaphore, 1000).await.unwrap();
    }
    let permits = |i: usize| match i % 4 {
        0 => vec![("s", 1)],
        1 => vec![("t", 1)],
        2 => vec![("t", 1), ("s", 1)],
        _ => vec![("u", 1), ("s", 1)],
    };
    let hold = async |id: String, i: usize| {
        let mut ask = owned_by(ask(&id, &permits(i)), ["ann", "bob"][i / 4 % 2]);
        if !i.is_multiple_of(3) {
            ask = with_ttl(ask, Duration::from_secs(60 + i as u64));
        }
        lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    };
    join_all((0..40).map(|i| hold(format!("kept-{i:02}"), i))).await;
    join_all((0..40).map(|i| hold(format!("goes-{i:02}"), i))).await;

    let (s, ann) = (name("s"), Owner::parse("ann").unwrap());
    let mut turn = 0;
    for (on, by) in [
        (None, None),
        (Some(&s), None),
        (None, Some(&ann)),
        (Some(&s), Some(&ann)),
    ] {
        let is_asked_for = |i: &usize| {
            let holds_it = on.is_none() || permits(*i).contains(&("s", 1));
            holds_it && (by.is_none() || (i / 4).is_multiple_of(2))
        };
        let kept = (0..40).filter(is_asked_for).map(|i| format!("kept-{i:02}"));
        // A request is granted for each page, so pages of one row would never end.
        for limit in [2, 3, 7] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = match by {
                    Some(by) => lockhouse.held_by(by, on, after, limit).await.unwrap(),
                    None => lockhouse.holders(on, after, limit).await.unwrap(),
                };
                seen.extend(
                    page.requests
                        .into_iter()
                        .map(|request| request.external_id.to_string()),
                );
                // Expiries move back and forth, and some requests get their first expiry.
                let (i, ttl) = (turn % 40, Duration::from_secs(30 + turn as u64 * 7 % 50));
                lockhouse
                    .renew(format!("kept-{i:02}"), Some(ttl))
                    .await
                    .unwrap();
                hold(format!("came-{turn}"), turn).await;
                let goes = match turn {
                    0..40 => format!("goes-{turn:02}"),
                    _ => format!("came-{}", turn - 40),
                };
                lockhouse.release(goes).await.unwrap();
                turn += 1;
                match page.next {
                    None => break,
                    next => after = next,
                }
            }
            seen.sort();
            let many = seen.len();
            seen.dedup();
            assert_eq!(seen.len(), many, "each at most once");
            seen.retain(|id| id.starts_with("kept"));
            assert!(
                seen.iter().eq(&kept.clone().collect::<Vec<_>>()),
                "{on:?} {by:?} {limit}"
            );
        }
    }
}

/// Requests that also hold permits of other semaphores come first. Within both parts the oldest comes first.
pub async fn holders_of_a_semaphore_are_found_among_many_of_several(place: &Place) {
    let lockhouse = place.client().await;
    for semaphore in ["all", "a", "b"] {
        lockhouse.define(semaphore, 10_000).await.unwrap();
    }
    // More rows than the query for one page reads.
    let holds = (0..1_150).map(|i| {
        let lockhouse = &lockhouse;
        let key = if i % 500 == 499 { "a" } else { "b" };
        async move {
            grant(lockhouse, &format!("r{i}"), &[("all", 1), (key, 1)])
                .await
                .unwrap()
        }
    });
    join_all(holds).await;
    grant(&lockhouse, "own", &[("a", 1)]).await.unwrap();
    let page = lockhouse.holders(Some(&name("a")), None, 3).await.unwrap();
    let ids: Vec<_> = page
        .requests
        .iter()
        .map(|request| request.external_id.as_str())
        .collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["own", "r499", "r999"]);
    assert_eq!(page.next, None);
    for (limit, pages) in [(1, 3), (2, 2)] {
        let (mut seen, mut after, mut read) = (0, None, 0);
        loop {
            let page = lockhouse
                .holders(Some(&name("a")), after, limit)
                .await
                .unwrap();
            seen += page.requests.len();
            read += 1;
            match page.next {
                None => break,
                next => after = next,
            }
        }
        assert_eq!(seen, 3);
        // The end may be found one page late.
        assert!(
            (pages..=pages + 1).contains(&read),
            "{read} pages of {limit}"
        );
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
            let mut after = None;
            loop {
                let page = lockhouse.held_by(&by, on, after, limit).await.unwrap();
                let mut owners = page.requests.iter().map(|request| &request.owner);
                assert!(owners.all(|owner| owner.as_ref() == Some(&by)));
                let ids = page.requests.into_iter();
                seen.extend(ids.map(|request| request.external_id));
                match page.next {
                    None => break,
                    next => after = next,
                }
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

/// The newest change comes first, and there are no more than the limit.
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
