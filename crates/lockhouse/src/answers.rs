//! Answers of calls.

use lockhouse_core::{Epoch, Reply, Request, Timestamp};

use crate::Error;
use crate::error::unexpected;

/// The result of [`Lockhouse::raise_epoch`](crate::Lockhouse::raise_epoch).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::Raised;
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let Raised { old, new, semaphores } = lockhouse.raise_epoch(None).await?;
/// println!("raised {semaphores} semaphores from epoch {old} to {new}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The epoch of the greatest fence before the call.
    pub old: Epoch,
    /// The epoch that all fences have reached.
    pub new: Epoch,
    /// How many semaphores were raised, including deleted ones.
    pub semaphores: u64,
}

/// The result of a release; see [`Permit::release`](crate::Permit::release) and
/// [`Lockhouse::release`](crate::Lockhouse::release).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::Released;
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// # lockhouse.define("backup-slots", 10).await?;
/// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
/// let Released { request, now, .. } = permit.release().await?;
/// if !now {
///     eprintln!("the permit was lost during the work: {:?}", request.end_reason());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The request after the call.
    pub request: Request,
    /// Whether this call ended the request; if not, it had ended before. If a server's answer was lost and the client
    /// asked again, a request that was ended in the same way at about that time counts as ended by this call.
    pub now: bool,
    /// When the store decided the call, by its clock.
    pub decided_at: Timestamp,
}

impl Released {
    pub(crate) fn of(reply: Reply) -> Result<Self, Error> {
        match reply {
            Reply::Ended {
                request,
                now,
                decided_at,
            } => Ok(Self {
                request,
                now,
                decided_at,
            }),
            other => Err(unexpected(&other)),
        }
    }
}
