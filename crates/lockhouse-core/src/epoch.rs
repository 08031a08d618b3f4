//! Epochs: an operator raises all fences to a new epoch after grants may have been lost.
//!
//! A database that fails over to a replica without the last commits has lost the grants in those
//! commits, while their holders go on. The fences of a new epoch are above every fence of an
//! earlier one.
//!
//! The epoch of the store is that of the fence in a separate row, [`Epoch::semaphore`], which looks
//! like a deleted semaphore. A new semaphore begins with that fence, since a semaphore of its name
//! may have been lost.

use std::fmt;

use crate::{Invalid, SemaphoreName};

/// How many fences an epoch has: 2³².
const FENCES: u64 = 1 << 32;

/// The last epoch, 2²¹−1: fences stay below 2⁵³, which is as far as JSON numbers are read exactly.
const LAST: u64 = (1 << 21) - 1;

/// The row whose fence is the store's epoch.
const SEMAPHORE: &str = "lockhouse:epoch";

/// A span of 2³² fences: 0 to 2²¹−1.
///
/// ```
/// use lockhouse_core::Epoch;
///
/// let next = Epoch::of(17).next()?;
/// assert_eq!(next.value(), 1);
/// assert_eq!(next.fence(), 1 << 32);
/// assert!(next < Epoch::LAST);
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The last epoch.
    pub const LAST: Epoch = Epoch(LAST);

    /// Checks that `epoch` is in bounds.
    ///
    /// # Errors
    /// [`Invalid`] on `epoch` if it is not 0 to 2²¹−1.
    pub fn new(epoch: impl Into<i128>) -> Result<Self, Invalid> {
        let epoch = epoch.into();
        u64::try_from(epoch)
            .ok()
            .filter(|epoch| *epoch <= LAST)
            .map(Self)
            .ok_or_else(|| Invalid::new("epoch", format!("is {epoch}, it goes from 0 to {LAST}")))
    }

    /// The epoch of `fence`. A fence beyond the last epoch counts as in the last.
    pub fn of(fence: u64) -> Self {
        Self((fence / FENCES).min(LAST))
    }

    /// The next epoch.
    ///
    /// # Errors
    /// [`Invalid`] on `epoch` if this is the last.
    pub fn next(self) -> Result<Self, Invalid> {
        Self::new(i128::from(self.0) + 1)
    }

    /// The fence with which the epoch begins. The first grant takes the next one.
    pub const fn fence(self) -> u64 {
        self.0 * FENCES
    }

    /// The number.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The name of the row that keeps the store's epoch.
    pub fn semaphore() -> SemaphoreName {
        SemaphoreName::stored(SEMAPHORE).expect("it is a name")
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_keep_fences_where_json_reads_them_exactly() {
        assert!(Epoch::new(-1).is_err() && Epoch::new(1 << 21).is_err());
        let last = Epoch::LAST;
        assert_eq!(last.fence() + FENCES, 1 << 53);
        let refused = last.next().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "epoch is 2097152, it goes from 0 to 2097151"
        );
    }

    #[test]
    fn the_next_epoch_is_above_every_fence_of_this_one() {
        for fence in [0, 1, FENCES - 1, FENCES, 7 * FENCES + 5] {
            let epoch = Epoch::of(fence);
            assert!(epoch.fence() <= fence && fence < epoch.next().unwrap().fence());
        }
        assert_eq!(Epoch::of(u64::MAX), Epoch::LAST);
    }
}
