//! The thread on which a blocking client's work in the background runs.

use std::sync::{MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::background::PATIENCE;

/// How long a drop waits on a thread of a runtime, whose tasks wait with it.
const PATIENCE_IN_A_RUNTIME: Duration = Duration::from_secs(2);

/// A thread that runs the background work of a blocking client. Dropping this ends the thread, after all permits that were
/// dropped before have been given back.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) handle: Handle,
    /// The last release that the store did not answer in time, if it has answered nothing since.
    pub(super) unanswered: std::sync::Mutex<Option<mpsc::Receiver<()>>>,
    pub(super) closing: Option<(crate::Lockhouse, oneshot::Sender<crate::Lockhouse>)>,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Whether the current thread is the runtime's own. Waiting on it would stop the runtime.
    pub(super) fn is_current(&self) -> bool {
        let current = thread::current().id();
        let own = self.thread.as_ref().map(|thread| thread.thread().id());
        own == Some(current)
    }

    pub(super) fn unanswered(&self) -> MutexGuard<'_, Option<mpsc::Receiver<()>>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a dropped permit `is_released`, for as long as the store may still answer.
    pub(super) fn wait_until(&self, is_released: mpsc::Receiver<()>) {
        if self.is_current() {
            return;
        }
        let mut unanswered = self.unanswered();
        let answers = |earlier: &mpsc::Receiver<()>| earlier.try_recv().is_ok();
        if !unanswered.as_ref().is_none_or(answers) {
            *unanswered = Some(is_released);
            return;
        }
        *unanswered = None;
        drop(unanswered);
        let patience = match Handle::try_current() {
            Ok(_) => PATIENCE_IN_A_RUNTIME,
            Err(_) => PATIENCE,
        };
        if is_released.recv_timeout(patience).is_err() {
            *self.unanswered() = Some(is_released);
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some((lockhouse, close)) = self.closing.take() {
            // Fails if the thread has panicked.
            let _ = close.send(lockhouse);
        }
        let is_current = self.is_current();
        if let Some(thread) = self.thread.take().filter(|_| !is_current) {
            let _ = thread.join();
        }
    }
}
