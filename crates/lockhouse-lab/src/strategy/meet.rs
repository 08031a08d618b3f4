//! A point in a strategy at which racing clients wait for each other.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a client waits at the point. Another client may never come, as it may wait for a lock of the first.
const PATIENCE: Duration = Duration::from_millis(250);

/// A point that `expected` clients reach before any of them goes on, unless that takes too long.
#[derive(Debug)]
pub struct Meet {
    expected: u32,
    here: Semaphore,
    gone_on: Semaphore,
}

impl Meet {
    /// A point for `expected` clients. If that is 1 or 0, no client waits.
    pub fn of(expected: u32) -> Self {
        Self {
            expected,
            here: Semaphore::new(0),
            gone_on: Semaphore::new(0),
        }
    }

    /// Waits for the others.
    pub(super) async fn others(&self) {
        if self.expected < 2 {
            return;
        }
        self.here.add_permits(1);
        if self.here.available_permits() >= self.expected as usize {
            self.gone_on.add_permits(self.expected as usize);
        }
        // A client that waited in vain goes on as well.
        let _ = timeout(PATIENCE, self.gone_on.acquire()).await;
    }
}
