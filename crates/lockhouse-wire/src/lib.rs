//! The JSON of the HTTP API, shared by the server and the client.
//!
//! Durations are integers in milliseconds and end in `_ms`; times are RFC 3339 in UTC. Bodies that
//! a caller sends refuse members that they don't know, and take every number that fits 64 bits, so
//! that one out of bounds is answered with its field and its bounds. Bodies that the server sends
//! may grow members, and readers pass over those that they don't know.

mod cursor;
mod number;
mod object;
mod owners;
mod problem;
mod requests;
mod semaphores;
mod waiting;

pub use cursor::{cursor, key};
pub use object::Object;
pub use owners::{Goodbye, Heartbeat, OwnerSession};
pub use problem::Problem;
pub use requests::{
    Acquire, AskedPermit, Grant, Holders, MAX_WAIT, Released, Renew, Request, Requests,
};
pub use semaphores::{CapacityChange, Define, History, Semaphore, Semaphores};
pub use waiting::{Waiter, Waiting};

use lockhouse_core::Invalid;

/// A header by which an answer is known to be that of a call: it comes back as it was sent.
///
/// What answers twice, or answers another's call, is found out by it: HTTP/1.1 itself tells only by
/// their order which answer is whose.
pub const CALL_ID: &str = "lockhouse-call-id";

/// The longest body that the server reads.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// How many rows a listing has unless asked otherwise.
pub const DEFAULT_LIMIT: u32 = 100;

/// The most rows of a listing in one piece.
pub const MAX_LIMIT: u32 = 1000;

/// Checks how many rows a listing shall have.
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
