//! Few listings run at once, by a clock that jumps ahead when no task can run.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::Code;
use tokio::time::{Instant, timeout};

use crate::hooked::slow_to_list;

const LISTING: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn listings_leave_the_store_to_holders() {
    let (lockhouse, listings) = slow_to_list(LISTING);
    lockhouse.define("s", 1).await.unwrap();
    let begun = Instant::now();
    let reading = join_all((0..100).map(|_| lockhouse.holders(None, None, 10)));
    let holding = async {
        let permit = lockhouse.semaphore("s").acquire().await.unwrap();
        permit.release().await.unwrap();
        begun.elapsed()
    };
    let (read, held) = tokio::join!(reading, holding);
    assert!(held < LISTING, "{held:?}");
    assert_eq!(listings.most.load(Ordering::SeqCst), 2);
    let refused: Vec<_> = read.iter().filter_map(|read| read.as_ref().err()).collect();
    assert!(refused.iter().all(|error| error.code() == Code::Overloaded));
    // Two run at a time for 5 s, with a rest of 0.1 s after each. Listings that began in time are answered later.
    let answered = read.len() - refused.len();
    assert!((8..=10).contains(&answered), "{answered}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// The store goes on with a listing whose caller gave up.
#[tokio::test(start_paused = true)]
async fn listings_whose_callers_left_count_until_the_store_has_answered() {
    let (lockhouse, listings) = slow_to_list(LISTING);
    for _ in 0..20 {
        let left = timeout(LISTING / 100, lockhouse.holders(None, None, 10)).await;
        assert!(left.is_err(), "a listing takes longer");
    }
    assert_eq!(listings.most.load(Ordering::SeqCst), 2);
    lockhouse.holders(None, None, 10).await.unwrap();
}

/// Readers rest while others wait, so that short listings do not take the processors.
#[tokio::test(start_paused = true)]
async fn readers_in_a_loop_are_slowed_and_a_lone_reader_is_not() {
    const SHORT: Duration = Duration::from_millis(10);
    for (readers, pages) in [(1, 95..=105), (20, 45..=60)] {
        let (lockhouse, _) = slow_to_list(SHORT);
        let begun = Instant::now();
        let read = async |_| {
            let mut pages = 0;
            while begun.elapsed() < Duration::from_secs(1) {
                lockhouse.holders(None, None, 10).await.unwrap();
                pages += 1;
            }
            pages
        };
        let read = join_all((0..readers).map(read)).await;
        let read: usize = read.iter().sum();
        // Readers that waited when the second was over are answered as well.
        let late = if readers == 1 { 0 } else { readers };
        assert!(
            pages.contains(&(read - late)),
            "{read} pages of {readers} readers"
        );
    }
}
