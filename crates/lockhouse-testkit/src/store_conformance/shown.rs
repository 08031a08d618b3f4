//! [`WaitingList`](lockhouse_core::store::WaitingList): the lists of waiters that processes publish.

use std::time::Duration;

use lockhouse_core::store::{ShownWaiter, Waiter};
use lockhouse_core::{Count, Priority, ProcessId};

use super::words::*;
use crate::place::Place;

fn waiter(external_id: &str, waited: Duration) -> ShownWaiter {
    ShownWaiter {
        external_id: id(external_id),
        owner: Some(owner("o")),
        count: Count::ONE,
        priority: Priority::default(),
        waited,
        lacks: vec![name("a")],
    }
}

/// The ids that each process publishes for `semaphore`.
async fn shown(store: &Store, semaphore: &str) -> Vec<(ProcessId, String)> {
    let shown = store.shown(&name(semaphore)).await.unwrap();
    let ids = |waiters: Vec<Waiter>| {
        let ids = waiters.iter().map(|waiter| waiter.external_id.as_str());
        ids.collect::<Vec<_>>().join(" ")
    };
    let processes = shown.processes.into_iter();
    let mut all: Vec<_> = processes
        .map(|(process, waiters)| (process, ids(waiters)))
        .collect();
    all.sort();
    all
}

/// P11: the waiters are in the order in which the process published them, with their times of arrival by the store's clock.
pub async fn a_process_shows_replaces_and_deletes_its_waiters(place: &Place) {
    let store = place.store().await;
    run(&store, [define("a", 1), define("b", 1)]).await;
    let (one, two) = (ProcessId::new(1), ProcessId::new(2));
    let long = Duration::from_secs(60);
    let waiting = [
        (
            name("a"),
            vec![waiter("x", long), waiter("y", Duration::ZERO)],
        ),
        (name("b"), vec![waiter("x", long)]),
    ];
    store.show(one, &waiting, &[]).await.unwrap();
    let other = [(name("a"), vec![waiter("z", Duration::ZERO)])];
    store.show(two, &other, &[]).await.unwrap();
    let of = |process, ids: &str| (process, ids.to_owned());
    assert_eq!(shown(&store, "a").await, [of(one, "x y"), of(two, "z")]);
    assert_eq!(shown(&store, "b").await, [of(one, "x")]);
    assert!(shown(&store, "unknown").await.is_empty());

    let all = [name("a"), name("b"), name("unknown")];
    let written = store.shown_at(&all).await.unwrap();
    let age = |at| written.now.duration_since(at).unsigned_abs();
    assert!(written.lists.iter().all(|(_, _, at)| age(*at) < long));
    let lists = written.lists.into_iter();
    let mut lists: Vec<_> = lists.map(|(name, process, _)| (name, process)).collect();
    lists.sort();
    assert_eq!(
        lists,
        [(name("a"), one), (name("a"), two), (name("b"), one)]
    );

    let listed = store.shown(&name("a")).await.unwrap();
    let mut waiters = listed.processes.iter().flat_map(|(_, waiters)| waiters);
    let x = waiters.find(|waiter| waiter.external_id == id("x"));
    let x = x.unwrap();
    let waited = listed.now.duration_since(x.since).unsigned_abs();
    assert!(waited >= long && waited < 2 * long, "{waited:?}");
    assert_eq!(x.owner, Some(owner("o")));
    assert_eq!(x.lacks, [name("a")]);

    let changed = [(name("a"), vec![waiter("y", Duration::ZERO)])];
    store.show(one, &changed, &[name("b")]).await.unwrap();
    assert_eq!(shown(&store, "a").await, [of(one, "y"), of(two, "z")]);
    assert!(shown(&store, "b").await.is_empty());
    store.show(one, &[], &[name("a"), name("b")]).await.unwrap();
    assert_eq!(shown(&store, "a").await, [of(two, "z")]);
}

pub async fn lists_of_waiters_are_forgotten_by_age(place: &Place) {
    let store = place.store().await;
    run(&store, [define("a", 1)]).await;
    let show = async |process| {
        let waiting = [(name("a"), vec![waiter("x", Duration::ZERO)])];
        let process = ProcessId::new(process);
        store.show(process, &waiting, &[]).await.unwrap();
    };
    for process in 1..=3 {
        show(process).await;
    }
    let between = Between::calls().await;
    show(4).await;
    let forget = async |age, limit| store.forget_shown(age, limit).await.unwrap();
    assert_eq!(forget(HOUR, ALL).await, 0);
    assert_eq!(forget(between.age(), 2).await, 2);
    assert_eq!(forget(between.age(), ALL).await, 1);
    assert_eq!(forget(between.age(), ALL).await, 0);
    let left = shown(&store, "a").await;
    assert_eq!(left, [(ProcessId::new(4), "x".to_owned())]);
}
