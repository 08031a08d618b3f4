//! [`Gate`] keeps the highest fences; [`MemoryGate`] keeps them in this process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::Fence;

/// Keeps the highest fence that passed, for each resource and slot.
///
/// # Contract
/// - [`pass`](Self::pass) refuses a fence lower than one that has passed. An equal one passes.
/// - A fence is recorded before `pass` returns. A writer may write and then be aborted, which drops its pass, or its `end`
///   may fail: older writers are refused all the same. So a gate in a database commits the fence, and then passes once
///   more in the transaction that keeps other writers out.
/// - From `pass` until [`end`](Self::end), or until the pass is dropped, other writers for that
///   resource and slot wait. So a slow writer is not overtaken unseen, and no older write comes
///   after a newer one.
pub trait Gate: Send + Sync + 'static {
    /// The guard or transaction that keeps other writers out.
    type Pass: Send + 'static;

    /// An error of the gate itself.
    type Error: Error + Send + Sync + 'static;

    /// Passes the gate, or returns why the writer may not pass.
    fn pass(
        &self,
        fence: &Fence,
    ) -> impl Future<Output = Result<Self::Pass, Refused<Self::Error>>> + Send;

    /// Lets other writers pass, after the write.
    fn end(&self, pass: Self::Pass) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Why a writer does not pass.
#[derive(Debug)]
pub enum Refused<E> {
    /// A later holder has passed: the writer has lost its hold.
    Stale,
    /// The gate failed, so the fence was not checked.
    Failed(E),
}

impl<E: fmt::Display> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Stale => f.write_str("the fence is stale; a later holder has passed"),
            Refused::Failed(error) => write!(f, "the gate failed: {error}"),
        }
    }
}

impl<E: Error + 'static> Error for Refused<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Refused::Stale => None,
            Refused::Failed(error) => Some(error),
        }
    }
}

/// A gate in this process, for a resource that only this process writes to. It forgets its fences when the process ends,
/// so after a restart a stale writer passes until a later holder has passed again.
#[derive(Clone, Debug, Default)]
pub struct MemoryGate {
    slots: Arc<Mutex<HashMap<(String, u32), Slot>>>,
}

/// The highest fence that passed, locked while its writer writes.
type Slot = Arc<tokio::sync::Mutex<u64>>;

impl MemoryGate {
    fn slot(&self, fence: &Fence) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (fence.resource.clone(), fence.slot);
        Arc::clone(slots.entry(key).or_default())
    }
}

impl Gate for MemoryGate {
    type Pass = OwnedMutexGuard<u64>;
    type Error = Infallible;

    async fn pass(&self, fence: &Fence) -> Result<Self::Pass, Refused<Infallible>> {
        let mut highest = self.slot(fence).lock_owned().await;
        if fence.fence < *highest {
            return Err(Refused::Stale);
        }
        *highest = fence.fence;
        Ok(highest)
    }

    async fn end(&self, pass: Self::Pass) -> Result<(), Infallible> {
        drop(pass);
        Ok(())
    }
}
