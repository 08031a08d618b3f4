//! Listings read many rows, so only a few run at once: they leave the store's connections to those who
//! hold and to those who wait for permits.
//!
//! A listing that has begun goes on in a task of its own when its caller goes away, and keeps its turn
//! until the store has answered. So callers who come and go at once don't add up either.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::attempt;
use crate::Error;

/// A server's database has two connections for them at most, out of 16.
const AT_ONCE: usize = 2;

/// So many may wait for their turn, and so long.
const IN_LINE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// The turns of the listings of one engine, first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Listings {
    turns: Arc<Semaphore>,
    line: Arc<Semaphore>,
}

impl Listings {
    pub(super) fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            line: Arc::new(Semaphore::new(AT_ONCE + IN_LINE)),
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
        let listing = tokio::spawn(async move {
            let _held = (place, turn);
            attempt::read(deadline, call).await
        });
        listing
            .await
            .unwrap_or_else(|died| Err(Error::Internal(format!("a listing died: {died}"))))
    }
}
