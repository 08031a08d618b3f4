//! The limit on listings: they read many rows, so only a few run at once, and leave the store's connections to holders and
//! waiters.
//!
//! A listing that has begun goes on in a task of its own when its caller goes away, and keeps its turn until the store has
//! answered. So callers who come and go at once don't add up either.
//!
//! Short listings, one after the other, would take the processors instead. So while others wait for a turn, a turn rests
//! after a listing, for [`REST`] times as long as that took.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store;
use tokio::sync::{self, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::retry;
use crate::Error;

/// A server's database has two connections for them at most, out of 16.
const AT_ONCE: usize = 2;

/// So many may wait for their turn, and so long.
const IN_LINE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a turn rests while others wait for it, in times of its listing, and at most.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The turns of the listings of one engine, first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Listings {
    turns: Arc<sync::Semaphore>,
    line: Arc<sync::Semaphore>,
}

impl Listings {
    pub(super) fn new() -> Self {
        Self {
            turns: Arc::new(sync::Semaphore::new(AT_ONCE)),
            line: Arc::new(sync::Semaphore::new(AT_ONCE + IN_LINE)),
        }
    }

    /// Reads in its turn, again where that can help, before `deadline`.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when too many wait for their turn, or it does not come in time.
    pub(super) async fn read<T, F>(
        &self,
        deadline: Instant,
        call: impl FnMut() -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, store::Error>> + Send + 'static,
    {
        let line = Arc::clone(&self.line).try_acquire_owned();
        let place = line.map_err(|_| Error::Overloaded)?;
        let turn = timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Error::Overloaded);
        };
        let (answer, answered) = oneshot::channel();
        let line = Arc::clone(&self.line);
        tokio::spawn(async move {
            let begun = Instant::now();
            // Nobody may be there to take it.
            let _ = answer.send(retry::read(deadline, call).await);
            drop(place);
            // More than those who have the other turns.
            if line.available_permits() <= IN_LINE {
                sleep((begun.elapsed() * REST).min(LONGEST_REST)).await;
            }
            drop(turn);
        });
        let died = |_| Error::Internal("a listing died".to_owned());
        answered.await.map_err(died)?
    }
}
