//! [`Listing`](lockhouse_core::store::Listing), page by page.

use lockhouse_core::store::{Holders, Page};
use lockhouse_core::{Command, Definition, NamePrefix, Note, SemaphoreName};

use super::words::*;
use crate::place::Place;

/// Deleted semaphores are not listed among those that exist, and stay listed among all.
pub async fn deleted_semaphores_are_listed_among_all_that_ever_were(place: &Place) {
    let store = place.store().await;
    let names = ["Z", "a", "a b", "b", "é"];
    run(&store, names.map(|semaphore| define(semaphore, 1))).await;
    run(&store, ["a", "é"].map(delete)).await;
    let mut existing: Vec<SemaphoreName> = Vec::new();
    let mut page = first(2);
    loop {
        let more = store.semaphores(None, &page).await.unwrap();
        assert!(more.len() <= 2);
        let Some(last) = more.last() else { break };
        page.after = Some(last.name.clone());
        existing.extend(more.into_iter().map(|semaphore| semaphore.name));
    }
    assert_eq!(existing, ["Z", "a b", "b"].map(name));
    let mut ever = Vec::new();
    let mut page = first(2);
    loop {
        let more = store.semaphores_ever(&page).await.unwrap();
        assert!(more.len() <= 2);
        let Some(last) = more.last() else { break };
        page.after = Some(last.name.clone());
        ever.extend(more.into_iter().map(|row| (row.exists(), row.name)));
    }
    let expected = names.map(|semaphore| (!["a", "é"].contains(&semaphore), name(semaphore)));
    assert_eq!(ever, expected);
}

/// Each request that matches is on exactly one page, with all its permits. No other request is on any page.
pub async fn live_requests_are_listed_by_pages_and_filters(place: &Place) {
    let store = place.store().await;
    let mut commands = vec![define("a", 99), define("b", 99), define("none", 9)];
    for number in 0..6 {
        let on = [&["a"][..], &["b"], &["a", "b"]][number % 3];
        let by = ["o", "O"][number % 2];
        commands.push(acquire_for(&format!("r{number}"), on, Some(by), None));
    }
    commands.push(acquire("nobody's", &["a"]));
    commands.push(acquire("ended", &["a"]));
    run(&store, commands).await;
    run(&store, [release("ended")]).await;
    for (on, by, expected) in [
        (None, None, "nobody's r0 r1 r2 r3 r4 r5"),
        (Some("a"), None, "nobody's r0 r2 r3 r5"),
        (Some("b"), None, "r1 r2 r4 r5"),
        (None, Some("o"), "r0 r2 r4"),
        (Some("a"), Some("O"), "r3 r5"),
        (Some("none"), None, ""),
        (Some("unknown"), None, ""),
        (None, Some("unknown"), ""),
    ] {
        let of = Holders {
            on: on.map(name),
            owner: by.map(owner),
        };
        for limit in [1, 2, ALL] {
            let (mut after, mut listed) = (None, Vec::new());
            loop {
                let page = Page { after, limit };
                let held = store.holders(&of, &page).await.unwrap();
                assert!(held.requests.len() <= limit as usize);
                listed.extend(held.requests);
                after = held.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(ids(&listed).join(" "), expected, "{of:?}, {limit} a page");
            for request in listed {
                let read = store.request(&request.external_id).await.unwrap();
                assert_eq!(read, Some(request));
            }
        }
    }
}

/// By bytes. A page may begin after a name that comes before all names with the prefix, or after all of them.
pub async fn semaphores_are_listed_by_a_prefix_and_pages(place: &Place) {
    let store = place.store().await;
    let names = [
        "A/1",
        "a",
        "a/",
        "a/1",
        "a/é",
        "a0",
        "b",
        "\u{10ffff}",
        "\u{10ffff}1",
    ];
    run(&store, names.map(|semaphore| define(semaphore, 1))).await;
    run(&store, [define("a/deleted", 1)]).await;
    run(&store, [delete("a/deleted")]).await;
    for prefix in ["", "a", "a/", "a/1", "A", "z", "\u{10ffff}"] {
        let expected = names.iter().filter(|name| name.starts_with(prefix));
        let expected: Vec<_> = expected.map(|listed| name(listed)).collect();
        let prefix = NamePrefix::parse(prefix).unwrap();
        let (mut listed, mut page) = (Vec::new(), first(2));
        loop {
            let more = store.semaphores(Some(&prefix), &page).await.unwrap();
            assert!(more.len() <= 2);
            let Some(last) = more.last() else { break };
            page.after = Some(last.name.clone());
            listed.extend(more.into_iter().map(|semaphore| semaphore.name));
        }
        assert_eq!(listed, expected, "{prefix:?}");
    }
    let prefix = NamePrefix::parse("a/").unwrap();
    for (after, expected) in [("A/1", Some("a/")), ("a/1", Some("a/é")), ("b", None)] {
        let page = Page {
            after: Some(name(after)),
            limit: 1,
        };
        let listed = store.semaphores(Some(&prefix), &page).await.unwrap();
        let listed = listed.first().map(|semaphore| semaphore.name.as_str());
        assert_eq!(listed, expected, "after {after}");
    }
}

/// The changes of one semaphore, with who made each and why.
pub async fn capacity_changes_are_listed_newest_first(place: &Place) {
    let store = place.store().await;
    let resize = |to, by: Option<&str>, note: Option<&str>| {
        let Command::Define(definition) = define("a", to) else {
            unreachable!("it is one")
        };
        Command::Define(Definition {
            changed_by: by.map(owner),
            note: note.map(|note| Note::parse(note).unwrap()),
            ..definition
        })
    };
    run(&store, [define("a", 1), define("A", 1), define("A", 9)]).await;
    run(&store, [resize(2, Some("ops"), Some("it's \"night\""))]).await;
    run(
        &store,
        [resize(3, None, None), resize(0, Some("Ops"), None)],
    )
    .await;
    let history = store.history(&name("a"), ALL).await.unwrap();
    let told = history.iter().map(|change| {
        let (by, note) = (change.changed_by.as_ref(), change.note.as_ref());
        assert_eq!(change.semaphore, name("a"));
        (
            change.old_capacity.value(),
            change.new_capacity.value(),
            by.map(|by| by.as_str()),
            note.map(|note| note.as_str()),
        )
    });
    let expected = [
        (3, 0, Some("Ops"), None),
        (2, 3, None, None),
        (1, 2, Some("ops"), Some("it's \"night\"")),
    ];
    assert!(told.eq(expected), "{history:?}");
    assert_eq!(store.history(&name("a"), 2).await.unwrap(), history[..2]);
    for (unlisted, limit) in [("a", 0), ("unknown", ALL)] {
        let changes = store.history(&name(unlisted), limit).await.unwrap();
        assert_eq!(changes, [], "{unlisted}");
    }
}
