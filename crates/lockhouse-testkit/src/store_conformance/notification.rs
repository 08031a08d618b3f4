//! [`Notification`](lockhouse_core::store::Notification).

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::{
    Command, Count, Priority, ProcessId, Saved, SemaphoreName, Seniority, Stand, Standing,
};
use tokio::time::timeout;

use super::words::*;
use crate::place::Place;

/// A report that has not come after this time will not come.
const A_WHILE: Duration = Duration::from_secs(1);

/// How long the rule waits for a notification that must not come.
const A_MOMENT: Duration = Duration::from_millis(100);

/// The waiters of one process are notified of what another releases. An empty answer means that it may be any semaphore. A
/// store without notifications never answers.
pub async fn a_release_by_another_process_is_reported_if_the_store_notifies(place: &Place) {
    let (store, other) = (place.store().await, place.store().await);
    run(&other, ["a", "b"].map(|of| define(of, 1))).await;
    run(&other, ["a", "b"].map(|of| acquire(of, &[of]))).await;
    let on = BTreeSet::from(["a", "b"].map(name));
    let changed = async |within| {
        let changed = store.changed(&on, ProcessId::new(1));
        timeout(within, changed).await.ok()
    };
    if !place.notifies() {
        assert_eq!(changed(A_MOMENT).await, None);
        run(&other, [release("b")]).await;
        assert_eq!(changed(A_MOMENT).await, None);
        return;
    }
    // A store may report what was before the first call.
    while changed(A_WHILE).await.is_some() {}
    for (command, of) in [
        (release("b"), "b"),
        (define("a", 2), "a"),
        (delete("b"), "b"),
    ] {
        run(&other, [command]).await;
        let names = changed(SOON).await.expect("it is reported");
        let is_all = names.is_empty();
        assert!(is_all || names == BTreeSet::from([name(of)]), "{names:?}");
        while changed(A_WHILE).await.is_some() {}
    }
}

/// P11: two processes wait for `a` and `b`, and one of them is the first in the line of `a`. A release of `a` is reported to
/// that one only. A store without notifications never answers.
pub async fn permits_left_to_one_process_are_not_reported_to_a_third(place: &Place) {
    let other = place.store().await;
    run(&other, ["a", "b"].map(|of| define(of, 1))).await;
    let on = BTreeSet::from(["a", "b"].map(name));
    let (third, first) = (Waiting::new(place, 1).await, Waiting::new(place, 2).await);
    if !place.notifies() {
        run(&other, [acquire("x", &["a"]), stand_first(2, "a")]).await;
        run(&other, [release("x")]).await;
        for process in [&third, &first] {
            assert_eq!(process.changed(&on, A_MOMENT).await, None);
        }
        return;
    }
    for (round, process) in [&third, &first].into_iter().enumerate() {
        let external_id = format!("before {round}");
        run(&other, [acquire(&external_id, &["b"])]).await;
        run(&other, [release(&external_id)]).await;
        process.changed(&on, SOON).await.expect("it listens");
    }
    run(&other, ["a", "b"].map(|of| acquire(of, &[of]))).await;
    run(&other, [stand_first(2, "a")]).await;
    for process in [&third, &first] {
        while process.changed(&on, A_WHILE).await.is_some() {}
    }

    run(&other, [release("a")]).await;
    let names = first.changed(&on, SOON).await.expect("it is reported");
    assert!(names.is_empty() || names == BTreeSet::from([name("a")]));
    assert_eq!(third.changed(&on, A_MOMENT).await, None);
    // Notifications come in the order of the commits.
    run(&other, [release("b")]).await;
    let names = third.changed(&on, SOON).await.expect("it is reported");
    assert!(names.is_empty() || names == BTreeSet::from([name("b")]));
}

/// A process that waits.
struct Waiting {
    store: Store,
    process: ProcessId,
}

impl Waiting {
    async fn new(place: &Place, process: u64) -> Self {
        let store = place.store().await;
        let process = ProcessId::new(process);
        Self { store, process }
    }

    async fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        within: Duration,
    ) -> Option<BTreeSet<SemaphoreName>> {
        let changed = self.store.changed(on, self.process);
        timeout(within, changed).await.ok()
    }
}

/// Records in the line of `semaphore` that one waiter of `process` has waited for a minute.
fn stand_first(process: u64, semaphore: &str) -> Command {
    let standing = Standing {
        seniority: Seniority::new(Duration::from_secs(60), Priority::default()),
        count: Count::ONE,
        waiting: 1,
    };
    let stand = Stand {
        process: ProcessId::new(process),
        standing: Some(standing),
        saved: Saved::Always,
    };
    let name = name(semaphore);
    Command::Stand { name, stand }
}

/// A caller may drop the future of `changed` at any time: the store stays usable. A notification names only semaphores of the
/// call.
pub async fn a_notification_that_is_dropped_leaves_the_store_usable(place: &Place) {
    let (store, other) = (place.store().await, place.store().await);
    run(&store, [define("a", 1), acquire("x0", &["a"])]).await;
    let on = BTreeSet::from([name("a")]);
    for round in 0..5 {
        let changed = timeout(
            Duration::from_millis(50),
            store.changed(&on, ProcessId::new(1)),
        );
        let release = run(&other, [release(&format!("x{round}"))]);
        let (changed, ()) = tokio::join!(changed, release);
        if let Ok(names) = changed {
            assert!(names.is_subset(&on), "{names:?}");
        }
        let next = format!("x{}", round + 1);
        assert!(granted(&store, acquire(&next, &["a"])).await.is_live());
    }
}
