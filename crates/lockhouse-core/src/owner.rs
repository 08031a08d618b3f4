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
