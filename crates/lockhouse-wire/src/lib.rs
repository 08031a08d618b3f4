//! The JSON of the HTTP API, shared by the server and the client.
//!
//! Durations are integers in milliseconds and end in `_ms`; times are RFC 3339 in UTC. Bodies from
//! callers refuse unknown members. They accept every 64-bit number, so that the error for one out
//! of bounds can name its field and bounds. Bodies from the server may get new members, and readers
//! ignore unknown ones.

mod cursor;
mod number;
mod object;
mod owners;
mod problem;
mod requests;
mod semaphores;
mod templates;
mod tokens;
mod waiting;

pub use cursor::{cursor, key};
pub use object::Object;
pub use owners::{Goodbye, Heartbeat, OwnerSession};
pub use problem::Problem;
pub use requests::{
    Acquire, AskedPermit, Grant, Holders, MAX_WAIT, Released, Renew, Request, Requests,
};
pub use semaphores::{CapacityChange, Define, History, Semaphore, Semaphores};
pub use templates::{DefineTemplate, Template, Templates};
pub use tokens::{Login, MadeToken, NewToken, Token, Tokens};
pub use waiting::{Waiter, Waiting};

use lockhouse_core::Invalid;

/// A header that assigns an answer to its call: the server returns it unchanged.
///
/// It detects repeated answers and answers to another call: HTTP/1.1 itself matches answers only by
/// their order.
pub const CALL_ID: &str = "lockhouse-call-id";

/// The longest body that the server reads.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The default limit of a listing.
pub const DEFAULT_LIMIT: u32 = 100;

/// The most rows in one page of a listing.
pub const MAX_LIMIT: u32 = 1000;

/// Checks the limit of a listing.
///
/// # Errors
/// [`Invalid`] on `limit` if it is not 1 to 1000.
pub fn limit(limit: i64) -> Result<u32, Invalid> {
    u32::try_from(limit)
        .ok()
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or_else(|| {
            let problem = format!("is {limit}, it goes from 1 to {MAX_LIMIT}");
            Invalid::new("limit", problem)
        })
}
