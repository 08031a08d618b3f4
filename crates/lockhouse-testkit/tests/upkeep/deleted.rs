//! The rows of deleted semaphores, and the purge that removes them.

use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_core::store::{Page, Purge};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep};

on_each_store! { deleted_names_do_not_stay_and_their_fences_do_not_come_back }

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
