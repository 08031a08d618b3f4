//! The terms and the rules of Lockhouse, a distributed counting semaphore.
//!
//! One pure function has all the rules about who gets permits. [`decide()`] takes the rows that a
//! store has [`Loaded`] and a list of [`Command`]s. It returns the outcome of each command and the
//! [`Changes`] that the store must save. It does no I/O and reads no clock, so every store that
//! calls it under its locks obeys the same rules.
//!
//! A new kind of store implements the traits in [`store`] and keeps their contracts.

mod access;
mod ask;
mod changes;
mod code;
mod command;
mod decide;
mod epoch;
mod error;
mod footprint;
mod gap;
mod invalid;
mod line;
mod numbers;
mod owner;
mod prefix;
mod priority;
mod recount;
mod refusal;
mod request;
mod semaphore;
mod slots;
mod sql_dialect;
pub mod store;
mod stored;
mod template;
mod text;
mod turn;

pub use access::{
    Covered, Digest, MAX_TOKEN_GRANTS, MAX_TOKEN_NAME_BYTES, Token, TokenGrant, TokenName, Verb,
};
pub use ask::{Ask, MAX_SEMAPHORES_A_REQUEST};
pub use changes::{Changes, Decision, Ended, Freed, Loaded, Renewed};
pub use code::Code;
pub use command::{Cause, Command, Definition, Outcome, Reply, Saved, Stand};
pub use decide::decide;
pub use epoch::Epoch;
pub use error::Error;
pub use footprint::Footprint;
pub use gap::{Gap, Key};
pub use invalid::Invalid;
pub use jiff::Timestamp;
pub use line::{
    Admission, Claim, Entry, HEARD_FOR, Line, LineTime, MAX_LINE, MAX_LINE_BYTES, ProcessId,
    Seniority, Standing, WINDOW,
};
pub use numbers::{Capacity, Count, MAX_COUNT, MAX_TTL, Ttl};
pub use owner::{Heard, OwnerSession};
pub use prefix::NamePrefix;
pub use priority::{MAX_PRIORITY, Priority};
pub use recount::{Finding, HeldSlots, Recount, Recounted};
pub use refusal::Refusal;
pub use request::{EndReason, Grant, Request, State};
pub use semaphore::{CapacityChange, SemaphoreRow, SemaphoreStatus};
pub use slots::{MAX_SLOTTED_CAPACITY, Slots};
pub use sql_dialect::SqlDialect;
pub use template::{
    Idle, MAX_TEMPLATES, Origin, Pattern, Template, TemplateDefinition, USED_EVERY,
};
pub use text::{ExternalId, MAX_NOTE_BYTES, MAX_TEXT_BYTES, Note, Owner, SemaphoreName};
pub use turn::{PlaceInLine, StillWaiting, Turn};
