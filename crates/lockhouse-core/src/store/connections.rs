//! The connections of a store, for an operator to watch.

/// The connections of a store to its database, as they are now. All are 0 for a store without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The most that the store opens at a time.
    pub most: usize,
    /// Those that a call uses.
    pub busy: usize,
    /// Those that are open and that no call uses.
    pub idle: usize,
    /// How many were opened since the process began.
    pub opened: u64,
    /// How many calls wait until a connection is free.
    pub queued: usize,
}
