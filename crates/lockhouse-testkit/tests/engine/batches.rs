//! Which calls share a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use lockhouse_core::store::{Error, Kind};
use lockhouse_testkit::watched::Watched;

use crate::hooked::hooked;

const CALLERS: usize = 8;

/// Without a pause before the next batch, two halves of the callers would take turns.
#[tokio::test]
async fn callers_that_call_again_at_once_join_the_next_batch() {
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

/// The last lane takes commands that share no row. A semaphore that one of them needs may block the others.
#[tokio::test]
async fn a_command_tried_alone_locks_only_its_own_rows() {
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
