//! The JSON of the HTTP API, shared by the server and the client.
//!
//! Durations are integers in milliseconds and end in `_ms`; times are RFC 3339 in UTC. The server refuses unknown members
//! in the bodies of callers. It reads every 64-bit number, so that the error for one out of bounds names the field and
//! its bounds. Answers of the server may get more members; clients ignore those that they do not know.

mod cursor;
mod number;
mod object;
mod owners;
mod problem;
mod requests;
mod semaphores;
mod templates;
mod waiting;

pub use cursor::{cursor, key};
pub use object::Object;
pub use owners::{Goodbye, Heartbeat, OwnerSession};
pub use problem::Problem;
pub use requests::{Acquire, AskedPermit, Grant, Holders, Released, Renew, Request, Requests};
pub use semaphores::{CapacityChange, Define, History, Semaphore, Semaphores};
pub use templates::{DefineTemplate, Template, Templates};
pub use waiting::{Waiter, Waiting};

use std::time::Duration;

use lockhouse_core::Invalid;

/// A header that the server returns unchanged, so that the client can match an answer to its call.
///
/// HTTP/1.1 matches answers to calls by order only. This header detects a proxy that answers twice, or answers the wrong
/// call.
pub const CALL_ID: &str = "lockhouse-call-id";

/// The size of the largest body that the server reads.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The longest wait of one call: 24 hours. A caller that wants to wait longer calls again.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of rows on a page unless the caller sets a limit.
pub const DEFAULT_LIMIT: u32 = 100;

/// The most rows on a page.
pub const MAX_LIMIT: u32 = 1000;

/// Checks the limit of a page.
///
/// # Errors
/// [`Invalid`] on `limit` when it is not 1 to 1000.
pub fn limit(limit: i64) -> Result<u32, Invalid> {
    u32::try_from(limit)
        .ok()
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or_else(|| {
            let problem = format!("is {limit}, it goes from 1 to {MAX_LIMIT}");
            Invalid::new("limit", problem)
        })
}
