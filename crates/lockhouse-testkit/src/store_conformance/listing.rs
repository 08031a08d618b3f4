//! [`Listing`](lockhouse_core::store::Listing), page by page.

use lockhouse_core::SemaphoreName;
use lockhouse_core::store::{Holders, Page};

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
