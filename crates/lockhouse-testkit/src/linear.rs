//! Checks short windows of a history for linearizability. A window is linearizable if its calls have an order in which a
//! sequential counting semaphore would have given the same answers. Each call takes effect between its beginning and its
//! answer.
//!
//! The promises exclude bad events. This check shows that all events together fit one order. It takes more than linear time,
//! so it is done window by window. A window is a part of the history of one semaphore between two moments at which no call
//! waits for an answer. At such a moment the held permits are known, and the next window begins with them.
//!
//! A call on several semaphores counts on each of them separately. A window is skipped if an answer was lost, a TTL
//! ran, or the capacity changed in it. The held permits are then taken from the answers. For such windows the rows and the
//! [checker](fn@crate::history::check) say more.

mod lost;
mod windows;

pub use lost::windows_with_losses;
pub use windows::{Windows, windows};
