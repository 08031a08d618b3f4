//! Waiters for keyed semaphores, on a store that is slow to find lapsed requests.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_core::store::{Call, Error, FullStore, Layer};
use lockhouse_stores::Memory;
use tokio::time::{Instant, sleep};

/// Longer than a waiter waits before its process enters it in the line.
const SLOW: Duration = Duration::from_millis(600);

#[derive(Debug)]
struct SlowToLook(Arc<Memory>);

impl Layer for SlowToLook {
    fn inner(&self) -> &dyn FullStore {
        &*self.0
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        if let Call::Due = call {
            sleep(SLOW).await;
        }
        answer.await
    }
}

/// P11: a waiter that lacks a key from the start never blocks a caller at another process, even before its own process has
/// polled.
#[tokio::test]
async fn a_waiter_that_lacks_a_key_is_in_no_other_line_before_the_first_poll() {
    let memory = Arc::new(Memory::new());
    let here = Lockhouse::with_store(memory.clone());
    let there = Lockhouse::with_store(Arc::new(SlowToLook(memory)));
    here.template("customer/*", 1).await.unwrap();
    here.define("all", 3).await.unwrap();
    let both = |client: &Lockhouse, key: &str| client.request().permits(key, 1).permits("all", 1);
    let held = both(&here, "customer/a").acquire().await.unwrap();
    let second = tokio::spawn(both(&there, "customer/a").acquire());
    let begun = Instant::now();
    while begun.elapsed() < 3 * SLOW {
        let other = both(&here, "customer/b").try_acquire().await;
        let other = other.unwrap_or_else(|error| panic!("{:?}: {error}", begun.elapsed()));
        other.release().await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    held.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
}
