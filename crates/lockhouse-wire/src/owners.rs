//! Owners' sessions: heartbeats and goodbyes.

use lockhouse_core::{Heard, Invalid, Owner, Timestamp, Ttl};
use serde::{Deserialize, Serialize};

use crate::number::whole;

/// What `PUT /v1/owners/{owner}` takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// After so long in silence, all that the owner holds is freed.
    #[serde(deserialize_with = "whole")]
    pub ttl_ms: i64,
    /// Only go on with a session: refuse with `session_ended` where it would begin one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_exist: bool,
}

/// An owner's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerSession {
    /// Who.
    pub owner: String,
    /// How long it may be silent.
    pub ttl_ms: u64,
    /// When its silence has been too long.
    pub expires_at: Timestamp,
    /// Whether this call began it: none went on until then.
    pub began: bool,
}

/// What a goodbye did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// Who.
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
