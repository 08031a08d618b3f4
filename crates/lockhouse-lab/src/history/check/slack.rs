//! The tolerance for inexact clocks.

/// How much the monotonic clock and the store's clock may drift apart in the life of a request.
pub(crate) const SLACK_US: u64 = 20_000;
