//! Owners' sessions.

use crate::{Owner, Timestamp, Ttl};

/// An owner's promise to be heard of again.
///
/// One heartbeat keeps all that the owner holds, whatever its number; silence frees all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerSession {
    /// Who.
    pub owner: Owner,
    /// How long it may be silent.
    pub ttl: Ttl,
    /// When its silence has been too long, by the store's clock.
    pub expires_at: Timestamp,
}

/// What a heartbeat did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The owner's session as it is now.
    pub session: OwnerSession,
    /// Whether this call began it. None went on until then: if there was one before, it had lapsed,
    /// or the owner was said to have left, and what it held may have been freed.
    pub began: bool,
}
