//! The rows of deleted semaphores, and the purge that removes them.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Lockhouse, Upkeep};
use lockhouse_core::store::{Page, Purge};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep};

on_each_store! {
    deleted_names_do_not_stay_and_their_fences_do_not_come_back,
    unused_semaphores_are_deleted_however_many_are_waited_for,
}

/// More semaphores than the upkeep reads at a time.
const WAITED_FOR: usize = 250;

/// A database server's store purges no semaphore before the epoch's row is 10 s old.
const SOON: Duration = Duration::from_secs(60);

/// P7.
async fn deleted_names_do_not_stay_and_their_fences_do_not_come_back(place: Place) {
    let store = lockhouse_stores::open(place.url()).unwrap();
    store.migrate().await.unwrap();
    let lockhouse = Lockhouse::with_store(store.clone());
    lockhouse.define("kept", 1).await.unwrap();
    lockhouse.template("made/*", 1).await.unwrap();
    let mut last_fence = 0;
    for i in 0..20 {
        let name = format!("made/{i}");
        for _ in 0..=i {
            let permit = lockhouse.semaphore(&name).acquire().await.unwrap();
            last_fence = permit.fence(&name);
            permit.release().await.unwrap();
        }
        lockhouse.delete(&name).await.unwrap();
    }
    let ever = async || {
        let page = Page {
            after: None,
            limit: 100,
        };
        let rows = store.semaphores_ever(&page).await.unwrap();
        let names = rows.iter().map(|row| row.name.to_string());
        names.collect::<Vec<_>>()
    };
    let old = Purge::Semaphores {
        age: Duration::from_secs(3_600),
    };
    assert_eq!(store.purge(old, 7).await.unwrap(), 0, "deleted just now");
    let (begun, age) = (Instant::now(), Duration::ZERO);
    let mut gone = 0;
    while gone < 20 {
        assert!(
            begun.elapsed() < SOON,
            "{gone} gone, and {:?} are left",
            ever().await
        );
        store.purge(Purge::Requests { age }, 100).await.unwrap();
        let some = store.purge(Purge::Semaphores { age }, 7).await.unwrap();
        assert!(some <= 7, "{some} at once");
        gone += some;
        if some == 0 {
            sleep(Duration::from_millis(200)).await;
        }
    }
    assert_eq!(ever().await, ["kept", "lockhouse:epoch"]);
    assert!(lockhouse.verify().await.unwrap().is_empty());
    for name in ["made/19", "made/0", "made/new"] {
        let permit = lockhouse.semaphore(name).acquire().await.unwrap();
        assert!(permit.fence(name) > last_fence, "{name}");
        permit.release().await.unwrap();
    }
    drop(lockhouse);
    place.clear().await;
}

/// Each waiter has room on its own semaphore, which is unused, and waits for a semaphore that all share.
async fn unused_semaphores_are_deleted_however_many_are_waited_for(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("all", 1).await.unwrap();
    let template = async |idle| lockhouse.template("t/*", 1).idle(idle).await.unwrap();
    template(Duration::from_secs(3_600)).await;
    let names: Vec<_> = (0..=WAITED_FOR).map(|i| format!("t/{i:03}")).collect();
    let made = names.iter().map(async |name| {
        let permit = lockhouse.semaphore(name).acquire().await.unwrap();
        permit.release().await.unwrap();
    });
    join_all(made).await;
    let held = lockhouse.semaphore("all").acquire().await.unwrap();
    let waiters = names[..WAITED_FOR].iter().map(|name| {
        let ask = lockhouse.request().permits(name, 1).permits("all", 1);
        tokio::spawn(async move { ask.acquire().await.map(drop) })
    });
    let waiters: Vec<_> = waiters.collect();
    let last = &names[WAITED_FOR - 1];
    let is_entered = async || {
        let status = lockhouse.status(last).await.unwrap();
        !status.semaphore.line.entries().is_empty()
    };
    let begun = Instant::now();
    while !is_entered().await {
        assert!(begun.elapsed() < SOON);
        sleep(Duration::from_millis(50)).await;
    }
    // The last use is kept to the second.
    sleep(Duration::from_millis(1_100)).await;
    template(Duration::from_millis(1)).await;
    lockhouse.sweep(&Upkeep::default()).await.unwrap();
    let unused = lockhouse.status(&names[WAITED_FOR]).await;
    assert!(unused.is_err(), "{unused:?}");
    assert!(lockhouse.status(last).await.is_ok());
    waiters.iter().for_each(|waiter| waiter.abort());
    held.release().await.unwrap();
    drop(lockhouse);
    place.clear().await;
}
