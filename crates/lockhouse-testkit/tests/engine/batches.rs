//! Who shares a batch with whom.

use futures_util::future::join_all;
use lockhouse_testkit::watched::Watched;

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
