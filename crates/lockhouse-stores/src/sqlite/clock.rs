//! The clock.

use lockhouse_core::Timestamp;
use lockhouse_core::store::Error;

use super::error::unreadable;

/// This machine's clock, to the microsecond, as the file keeps times. So an answer equals a later
/// read.
pub(super) fn now() -> Result<Timestamp, Error> {
    let us = Timestamp::now().as_microsecond();
    Timestamp::from_microsecond(us).map_err(|why| unreadable("time", why))
}
