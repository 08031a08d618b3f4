//! The effects: tasks that the state machines ask the [driver](super::driver) to do.

use super::blocked::AwaitedLock;
use super::lane::Lane;
use super::publication::Publication;

/// A task to start, or to wake.
#[derive(Debug)]
pub(super) enum Effect {
    /// Send the batch of a lane to the store.
    RunLane(Lane),
    /// Poll what other processes changed, until no call waits and no entry of this process is left to remove.
    Poll,
    /// Wake the poller, which has something new to look at.
    WakePoller,
    /// Poll the rows that other transactions keep locked, until none is known.
    PollLockedRows,
    /// Wait for a row or a gap in the database's own lock queue.
    WaitInLockQueue(AwaitedLock),
    /// Write the lists of this process's waiters.
    Publish(Publication),
}
