//! How many connections a store has to its database.

/// The connections of a store to its database, in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// How many there may be.
    pub most: usize,
    /// How many are in use by calls.
    pub in_use: usize,
    /// How many are open without a call.
    pub idle: usize,
}
