//! Histories: what clients asked, when, and how they were answered.
//!
//! A [`Recorder`] notes the beginning and the answer of each call. [`check()`] checks the history against the promises,
//! together with the rows that are left, if there are rows.

pub mod audit;
mod check;
mod lockhouse;
mod moved;
mod operation;
mod promise;
mod recorder;
pub mod rows;

pub use check::{Circumstances, check, check_under, late_grants, overtaken, slow_commits};
pub use lockhouse::Recorded;
pub(crate) use lockhouse::{acquire, ended, refused};
pub use moved::{Move, Moved};
pub use operation::{Answer, Asked, Call, FELLOWS, Held, NEVER, Operation, Refused};
pub use promise::{Promise, Violation};
pub use recorder::{Notebook, Recorder, now_us};
pub use rows::Rows;
