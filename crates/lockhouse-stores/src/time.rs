//! Times that stores compute.

use std::time::Duration;

use lockhouse_core::Timestamp;

/// `age` before `now`, but not before 1970, which not every database can express.
pub(crate) fn before(now: Timestamp, age: Duration) -> Timestamp {
    let before = now.checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH);
    before.max(Timestamp::UNIX_EPOCH)
}
