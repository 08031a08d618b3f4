//! The rows that [`Maintenance::purge`](lockhouse_core::store::Maintenance::purge) deletes, and those that it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse_core::store::Purge;
use lockhouse_core::{Epoch, Refusal};
use tokio::time::{Instant, sleep};

use super::words::*;
use crate::place::Place;

const ALL_REQUESTS: Purge = Purge::Requests {
    age: Duration::ZERO,
};

/// `count` requests `r0`… on `a` and `b` that ended one after the other, the first one earliest; and `live`.
async fn ended(place: &Place, count: usize) -> Store {
    let store = place.store().await;
    let live = acquire("live", &["a", "b"]);
    run(&store, [define("a", 999), define("b", 999), live]).await;
    for number in 0..count {
        let external_id = format!("r{number}");
        run(&store, [acquire(&external_id, &["a", "b"])]).await;
        run(&store, [release(&external_id)]).await;
        sleep(Duration::from_millis(2)).await;
    }
    store
}

async fn exists(store: &Store, external_id: &str) -> bool {
    store.request(&id(external_id)).await.unwrap().is_some()
}

async fn is_right(store: &Store) {
    let findings = store.recount().await.unwrap().findings();
    assert!(findings.is_empty(), "{findings:?}");
}

/// P2: their permits are deleted with them. Live requests stay, and so do those that ended later.
pub async fn requests_that_ended_before_an_age_are_purged(place: &Place) {
    let store = ended(place, 3).await;
    let between = Between::calls().await;
    run(&store, [acquire("since", &["a"])]).await;
    run(&store, [release("since")]).await;
    for age in [HOUR, Duration::MAX] {
        let what = Purge::Requests { age };
        assert_eq!(store.purge(what, ALL).await.unwrap(), 0, "{age:?}");
    }
    let age = between.age();
    let what = Purge::Requests { age };
    assert_eq!(store.purge(what, ALL).await.unwrap(), 3);
    for (external_id, is_kept) in [("r0", false), ("r2", false), ("since", true)] {
        assert_eq!(exists(&store, external_id).await, is_kept, "{external_id}");
    }
    is_right(&store).await;
    assert_eq!(store.purge(ALL_REQUESTS, ALL).await.unwrap(), 1);
    assert_eq!(store.purge(ALL_REQUESTS, ALL).await.unwrap(), 0);
    assert!(request(&store, "live").await.is_live());
    is_right(&store).await;
}

pub async fn a_purge_deletes_at_most_its_limit_oldest_first(place: &Place) {
    let store = ended(place, 5).await;
    assert_eq!(store.purge(ALL_REQUESTS, 0).await.unwrap(), 0);
    assert_eq!(store.purge(ALL_REQUESTS, 2).await.unwrap(), 2);
    assert!(!exists(&store, "r1").await);
    assert!(exists(&store, "r2").await);
    assert_eq!(store.purge(ALL_REQUESTS, 2).await.unwrap(), 2);
    assert_eq!(store.purge(ALL_REQUESTS, 2).await.unwrap(), 1);
    assert!(!exists(&store, "r4").await);
}

/// Purges `limit` requests that ended `age` ago. The store may ask to try again.
async fn purged(store: &Store, age: Duration, limit: u32) -> u64 {
    loop {
        match store.purge(Purge::Requests { age }, limit).await {
            Ok(purged) => return purged,
            Err(error) => assert!(error.is_transient() && !error.maybe_applied(), "{error}"),
        }
    }
}

/// The batches grant between the requests that are purged, and look for those. Some purge the requests that they ended.
pub async fn purges_at_once_delete_each_request_once_while_batches_go_on(place: &Place) {
    const OLD: u64 = 400;
    let store = ended(place, 0).await;
    let old = (0..OLD).map(|number| format!("r{number:03}"));
    let asks = old.clone().map(|of| acquire(&of, &["a", "b"]));
    run(&store, asks).await;
    run(&store, old.map(|of| release(&of))).await;
    let between = Between::calls().await;
    let done = Arc::new(AtomicBool::new(false));
    let batches = (0..3).map(|task| {
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        tokio::spawn(async move {
            let (mut made, mut deleted) = (0, 0);
            while !done.load(Ordering::Acquire) {
                let near = format!("r{:03}-{task}-{made}", made % OLD);
                granted(&store, acquire(&near, &["a", "b"])).await;
                let old = format!("r{:03}", made % OLD);
                outcomes(&store, vec![release(&near), release(&old)]).await;
                made += 1;
                deleted += purged(&store, Duration::ZERO, 1).await;
                // A store in memory never waits.
                tokio::task::yield_now().await;
            }
            (made, deleted)
        })
    });
    let batches: Vec<_> = batches.collect();
    let purges = (0..4).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut deleted = 0;
            for _ in 0..40 {
                deleted += purged(&store, between.age(), 20).await;
            }
            deleted
        })
    });
    let mut deleted = 0;
    for purge in purges.collect::<Vec<_>>() {
        deleted += purge.await.unwrap();
    }
    assert!(deleted <= OLD, "{deleted} were old");
    done.store(true, Ordering::Release);
    let mut ended = OLD;
    for batch in batches {
        let (made, more) = batch.await.unwrap();
        (ended, deleted) = (ended + made, deleted + more);
    }
    loop {
        match purged(&store, Duration::ZERO, ALL).await {
            0 => break,
            more => deleted += more,
        }
    }
    assert_eq!(deleted, ended);
    is_right(&store).await;
}

/// P5, P7
pub async fn a_purged_id_can_be_granted_again_under_a_higher_fence(place: &Place) {
    let store = ended(place, 2).await;
    let fence = request(&store, "r1").await.permits[0].fence;
    let again = acquire("r0", &["a", "b"]);
    let refused = outcome(&store, again.clone()).await;
    assert!(matches!(refused, Err(Refusal::RequestEnded { .. })));
    assert_eq!(store.purge(ALL_REQUESTS, ALL).await.unwrap(), 2);
    let granted = granted(&store, again).await;
    assert!(granted.permits[0].fence > fence);
}

pub async fn capacity_changes_before_an_age_are_purged(place: &Place) {
    let store = place.store().await;
    for capacity in 1..=4 {
        run(&store, [define("a", capacity)]).await;
    }
    let between = Between::calls().await;
    for capacity in 5..=6 {
        run(&store, [define("a", capacity)]).await;
    }
    let purge = async |age, limit| {
        let what = Purge::CapacityChanges { age };
        store.purge(what, limit).await.unwrap()
    };
    assert_eq!(purge(HOUR, ALL).await, 0);
    assert_eq!(purge(between.age(), 2).await, 2);
    let left = async || {
        let changes = store.history(&name("a"), ALL).await.unwrap();
        let capacities = changes.iter().map(|change| change.new_capacity.value());
        capacities.collect::<Vec<_>>()
    };
    assert_eq!(left().await, [6, 5, 4], "the oldest go first");
    assert_eq!(purge(between.age(), ALL).await, 1);
    assert_eq!(purge(between.age(), ALL).await, 0);
    assert_eq!(left().await, [6, 5]);
}

/// P10: the requests of a silent owner end only because of its session, so the session must stay.
pub async fn lapsed_sessions_are_purged_unless_their_owner_holds_something(place: &Place) {
    let store = place.store().await;
    let owners = ["held", "holds", "never held", "goes on"];
    let mut commands = vec![define("a", 9)];
    commands.push(acquire_for("x", &["a"], Some("holds"), None));
    commands.push(acquire_for("y", &["a"], Some("held"), None));
    commands.extend(owners[..3].iter().map(|of| heartbeat(of, 1)));
    commands.push(heartbeat("goes on", 600_000));
    run(&store, commands).await;
    run(&store, [release("y")]).await;
    let between = Between::calls().await;
    run(&store, [heartbeat("lapsed since", 1)]).await;
    sleep(Duration::from_millis(20)).await;
    let purge = async |age, limit| {
        let what = Purge::Sessions { age };
        store.purge(what, limit).await.unwrap()
    };
    assert_eq!(purge(HOUR, ALL).await, 0);
    assert_eq!(purge(between.age(), 1).await, 1);
    assert_eq!(purge(between.age(), ALL).await, 1);
    assert_eq!(purge(between.age(), ALL).await, 0);
    let mut asked = owners.map(owner).to_vec();
    asked.push(owner("lapsed since"));
    let mut left = store.owners_in_use(&asked).await.unwrap();
    left.sort();
    assert_eq!(left, ["goes on", "holds", "lapsed since"].map(owner));
}

/// The names of all rows of semaphores, without that of the epoch.
async fn ever(store: &Store) -> Vec<String> {
    let rows = store.semaphores_ever(&first(ALL)).await.unwrap();
    let names = rows.into_iter().map(|row| row.name);
    let names = names.filter(|name| *name != Epoch::semaphore());
    names.map(|name| name.to_string()).collect()
}

/// Its permits name the semaphores.
pub async fn a_deleted_semaphore_is_kept_as_long_as_a_request_that_ended_before(place: &Place) {
    let store = ended(place, 1).await;
    run(&store, [release("live")]).await;
    run(&store, [delete("a")]).await;
    let age = Duration::ZERO;
    let purged = store.purge(Purge::Semaphores { age }, ALL).await.unwrap();
    assert_eq!(purged, 0);
    assert_eq!(ever(&store).await, ["a", "b"]);
    let permits = request(&store, "r0").await.permits;
    let names: Vec<_> = permits.iter().map(|permit| &permit.semaphore).collect();
    assert_eq!(names, [&name("a"), &name("b")]);
}

/// P7: neither of the same name nor of a new one. A database server's store purges no semaphore before the epoch's row is
/// 10 s old.
pub async fn semaphores_deleted_before_an_age_are_purged_and_no_fence_comes_back(place: &Place) {
    let store = ended(place, 9).await;
    run(&store, [release("live"), define("c", 1), define("d", 1)]).await;
    let last_fence = semaphore(&store, "a").await.fence;
    run(&store, ["a", "b", "c"].map(delete)).await;
    let between = Between::calls().await;
    run(&store, [define("since", 1)]).await;
    run(&store, [delete("since")]).await;
    store.purge(ALL_REQUESTS, ALL).await.unwrap();
    let purge = async |age| {
        let what = Purge::Semaphores { age };
        store.purge(what, 2).await.unwrap()
    };
    assert_eq!(purge(HOUR).await, 0);
    let (begun, mut purged) = (Instant::now(), 0);
    while purged < 3 {
        let left = ever(&store).await;
        assert!(begun.elapsed() < SOON, "{purged} are purged: {left:?}");
        let some = purge(between.age()).await;
        assert!(some <= 2, "{some} at once");
        purged += some;
        if some == 0 {
            sleep(Duration::from_millis(200)).await;
        }
    }
    assert_eq!(purge(between.age()).await, 0);
    assert_eq!(ever(&store).await, ["d", "since"]);
    is_right(&store).await;
    run(&store, ["a", "new"].map(|of| define(of, 1))).await;
    for of in ["a", "new"] {
        let again = granted(&store, acquire(of, &[of])).await;
        assert!(again.permits[0].fence > last_fence, "{again:?}");
    }
}
