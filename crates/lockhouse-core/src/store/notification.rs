//! News of permits that came back through another process.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;

use crate::{ProcessId, SemaphoreName};

/// Tells of changes that other processes committed.
///
/// # Contract
/// - Nothing depends on it but time: waiters poll as well. A notification too many or too few costs time, and nothing else.
/// - A store without notifications never answers: it returns [`std::future::pending`].
#[async_trait]
pub trait Notification: fmt::Debug + Send + Sync + 'static {
    /// Waits until permits of `on`, which callers of `process` wait for, may have come back through
    /// another process, unless they are [left to](crate::Freed::left_to) a third one. Returns the semaphores that they may be of; none means that it may be any of them.
    ///
    /// The future may be dropped at any time. What comes between two calls is told by the second, if that is not seconds
    /// later.
    async fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> BTreeSet<SemaphoreName>;
}
