//! Owners' sessions.

use serde::{Deserialize, Serialize};

use crate::{Owner, Timestamp, Ttl};

/// The session of an owner: one heartbeat keeps all requests of the owner that have no TTL, however many. When the
/// session lapses, all of them end.
///
/// Its serde form is the stored form, not the JSON of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct OwnerSession {
    /// The owner.
    pub owner: Owner,
    /// How long the session lasts after a heartbeat.
    pub ttl: Ttl,
    /// When the session lapses without another heartbeat, by the store's clock.
    pub expires_at: Timestamp,
}

/// The result of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The owner's session after the heartbeat.
    pub session: OwnerSession,
    /// Whether this call began the session. An earlier session of the owner had then lapsed or was ended, and its
    /// requests may have ended.
    pub began: bool,
}
