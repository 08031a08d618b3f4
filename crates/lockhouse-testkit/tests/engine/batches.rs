//! Who shares a batch with whom.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::store::{Error, Kind};
use lockhouse_testkit::watched::Watched;
use tokio::time::timeout;

use crate::hooked::hooked;

const CALLERS: usize = 8;

/// Without a pause before the next batch, half of them would take turns with the other half.
#[tokio::test]
async fn those_who_ask_again_at_once_share_the_next_batch_with_those_who_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let (watched, lockhouse) = Watched::open(&format!("sqlite:{}", file.display())).await;
    lockhouse.define("a", 100).await.unwrap();
    watched.take();
    let caller = |lockhouse: lockhouse::Lockhouse| async move {
        for _ in 0..20 {
            let permit = lockhouse.semaphore("a").acquire().await.unwrap();
            permit.release().await.unwrap();
        }
    };
    join_all((0..CALLERS).map(|_| tokio::spawn(caller(lockhouse.clone())))).await;
    let mut sizes: Vec<usize> = watched
        .take()
        .batches
        .iter()
        .map(|(size, _)| *size)
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes[sizes.len() / 2], CALLERS, "{sizes:?}");
}

/// The last lane takes those who share nothing. What one of them needs may be what is in the others' way.
#[tokio::test]
async fn who_is_tried_alone_locks_nothing_of_others() {
    let (together, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let lockhouse = hooked({
        let (together, most) = (Arc::clone(&together), Arc::clone(&most));
        move |batch| {
            let (many, locks) = (batch.commands.len(), batch.footprint.semaphores.len());
            if many > 1 {
                together.fetch_max(locks, Ordering::Relaxed);
                return Err(Error::new(Kind::Rejected, "one at a time"));
            }
            most.fetch_max(locks, Ordering::Relaxed);
            Ok(Vec::new())
        }
    });
    let names: Vec<_> = ('a'..='z').map(String::from).collect();
    for name in &names {
        lockhouse.define(name, 1).await.unwrap();
    }
    let acquires = names.iter().map(|name| {
        let semaphore = lockhouse.semaphore(name);
        async move { semaphore.acquire().await }
    });
    let permits = join_all(acquires).await;
    let releases = permits.into_iter().map(|permit| permit.unwrap().release());
    for released in join_all(releases).await {
        released.unwrap();
    }
    assert!(together.load(Ordering::Relaxed) > 9, "{together:?}");
    assert_eq!(most.load(Ordering::Relaxed), 1);
}

/// P11: a waiter with room on its key, where another comes first, reserves its key and nothing else. It is the same whether the
/// store takes the batch together or command by command.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_another_at_its_key_is_in_nobodys_way_elsewhere() {
    for is_rejected in [false, true] {
        let (armed, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let lockhouse = hooked({
            let (armed, most) = (Arc::clone(&armed), Arc::clone(&most));
            move |batch| {
                let asks = batch
                    .commands
                    .iter()
                    .filter(|it| it.ask().is_some())
                    .count();
                most.fetch_max(asks, Ordering::Relaxed);
                match asks > 1 && armed.load(Ordering::Relaxed) {
                    true => Err(Error::new(Kind::Rejected, "one at a time")),
                    false => Ok(Vec::new()),
                }
            }
        });
        lockhouse.template("customer/*", 2).await.unwrap();
        lockhouse.define("all", 1).await.unwrap();
        let _key = lockhouse.semaphore("customer/a").acquire().await.unwrap();
        let held = lockhouse.semaphore("all").acquire().await.unwrap();
        let large = lockhouse.semaphore("customer/a");
        let mut large = pin!(large.acquire_many(2));
        timeout(Duration::from_secs(2), &mut large)
            .await
            .unwrap_err();

        armed.store(is_rejected, Ordering::Relaxed);
        most.store(0, Ordering::Relaxed);
        let both = |key: &str| lockhouse.request().permits(key, 1).permits("all", 1);
        let mut waits = pin!(both("customer/a").acquire());
        let all = lockhouse.semaphore("all");
        // While its lane is on its way, the others queue up behind it.
        let ahead = all.try_acquire();
        let tried = both("customer/b").try_acquire();
        let together = async {
            tokio::join!(
                ahead,
                timeout(Duration::from_secs(2), &mut waits),
                held.release(),
                tried
            )
        };
        let (ahead, waits, released, tried) = together.await;
        ahead.unwrap_err();
        assert!(waits.is_err(), "another comes first on customer/a");
        assert!(released.unwrap().now);
        assert_eq!(
            most.load(Ordering::Relaxed),
            2,
            "both asks were in one batch"
        );
        let granted = tried.unwrap();
        assert_eq!(granted.fence("customer/b"), 1, "rejected: {is_rejected}");
    }
}
