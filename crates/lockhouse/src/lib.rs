//! A distributed counting semaphore on the database that you already run.
//!
//! N workers, on any number of machines, may do a thing at once, and no more. Permits are counted,
//! durable, asked for on several semaphores in one all-or-nothing request, safe to retry by an id
//! that you pick, and fenced for whatever lies downstream.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! use lockhouse::Lockhouse;
//!
//! let lockhouse = Lockhouse::connect("memory:").await?; // or postgres://app@db/lockhouse
//! lockhouse.define("backup-slots", 10).await?;
//!
//! let permit = lockhouse.semaphore("backup-slots").acquire().await?;
//! println!("backing up under fence {}", permit.fence("backup-slots"));
//! permit.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The same [`Lockhouse`] works embedded, on a database's URL, and remote, on the URL of a
//! `lockhouse serve`. Programs without async have [`blocking`].

mod again;
mod answers;
mod backend;
mod background;
pub mod blocking;
mod client;
mod define;
mod engine;
mod error;
mod holding;
mod listing;
pub mod liveness;
mod mutex;
mod permit;
mod pool;
mod relative;
#[cfg(feature = "remote")]
mod remote;
mod request;
mod rwlock;
mod semaphore;
mod session;
mod suspects;
mod upkeep;
mod who;

pub use answers::{Raised, Released};
pub use client::Lockhouse;
pub use define::Define;
pub use holding::Lost;
pub use liveness::OwnerPattern;
pub use lockhouse_core::store;
pub use lockhouse_core::store::{Cursor, Held, Waiter};
pub use lockhouse_core::{
    Ask, Capacity, CapacityChange, Cause, Code, Command, Count, Definition, EndReason, Epoch,
    Error, ExternalId, Finding, Grant, Heard, Invalid, Note, Outcome, Owner, OwnerSession,
    Priority, Refusal, Reply, Request, SemaphoreName, SemaphoreStatus, State, Timestamp, Ttl,
};

pub use lockhouse_stores::without_credentials;
pub use mutex::Mutex;
pub use permit::Permit;
pub use request::RequestBuilder;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use session::Session;
pub use upkeep::{Maintaining, Swept, Upkeep, UpkeepState};
