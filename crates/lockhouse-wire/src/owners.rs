//! Owners' sessions: heartbeats and goodbyes.

use lockhouse_core::{Heard, Invalid, Owner, Timestamp, Ttl};
use serde::{Deserialize, Serialize};

use crate::number::whole;

/// The body of `PUT /v1/owners/{owner}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session lapses after this long without a heartbeat.
    #[serde(deserialize_with = "whole")]
    pub ttl_ms: i64,
    /// Only continue a session: refuse with `session_ended` instead of beginning one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_exist: bool,
}

/// An owner's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerSession {
    /// The owner.
    pub owner: String,
    /// How long the session lasts after a heartbeat.
    pub ttl_ms: u64,
    /// When the session lapses without another heartbeat.
    pub expires_at: Timestamp,
    /// Whether this call began the session.
    pub began: bool,
}

/// The result of a goodbye.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// The owner.
    pub owner: String,
    /// How many requests were released by this call.
    pub released: u64,
}

impl From<&Heard> for OwnerSession {
    fn from(Heard { session, began }: &Heard) -> Self {
        Self {
            owner: session.owner.to_string(),
            ttl_ms: session.ttl.as_ms(),
            expires_at: session.expires_at,
            began: *began,
        }
    }
}

impl TryFrom<OwnerSession> for Heard {
    type Error = Invalid;

    fn try_from(session: OwnerSession) -> Result<Self, Invalid> {
        Ok(Self {
            began: session.began,
            session: lockhouse_core::OwnerSession {
                owner: Owner::parse(&session.owner)?,
                ttl: Ttl::from_ms(session.ttl_ms)?,
                expires_at: session.expires_at,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_comes_back_as_it_was_sent() {
        let session = lockhouse_core::OwnerSession {
            owner: Owner::parse("ann").unwrap(),
            ttl: Ttl::from_ms(30_000).unwrap(),
            expires_at: "2026-01-02T03:04:05.000006Z".parse().unwrap(),
        };
        for began in [true, false] {
            let session = session.clone();
            let heard = Heard { session, began };
            let sent = serde_json::to_string(&OwnerSession::from(&heard)).unwrap();
            let read: OwnerSession = serde_json::from_str(&sent).unwrap();
            assert_eq!(Heard::try_from(read), Ok(heard));
        }
    }
}
