//! The size of a page.

/// The most rows that the library lists in one call.
pub(super) const PAGE: u32 = 1000;
