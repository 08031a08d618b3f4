//! Notifications about releases in other processes.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;

use crate::{ProcessId, SemaphoreName};

/// Notifies a process of changes that other processes committed.
///
/// # Contract
/// - Only latency depends on it, since waiters poll as well. An extra or a missing notification
///   costs time, and nothing else.
/// - Notifications come in the order of the commits.
/// - A store without notifications never answers: it returns [`std::future::pending`].
#[async_trait]
pub trait Notification: fmt::Debug + Send + Sync + 'static {
    /// Waits until another process may have released permits of one of the semaphores `on`, for
    /// which `process` has waiters. Permits that are [left to](crate::Freed::left_to) a third
    /// process do not count. Returns the semaphores concerned; an empty list means that it may be
    /// any of them.
    ///
    /// The future may be dropped at any time. A change between two calls is reported by the second
    /// call, if that begins within about a second.
    async fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> BTreeSet<SemaphoreName>;
}
