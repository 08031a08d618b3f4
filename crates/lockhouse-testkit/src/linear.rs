//! Linearizability of short windows: whether there is an order of the calls, each at a moment between
//! its beginning and its answer, in which a counted semaphore that does one thing after the other
//! would have answered the same.
//!
//! The promises say what must not happen; this says that all that did happen fits one story. It
//! costs more than linear time, so it is for windows: stretches of the history of one semaphore
//! between two moments at which nobody is waiting for an answer. At such a moment what is held is
//! known, and the next window begins with it.
//!
//! A call on several semaphores counts on each of them by itself. A window in which an answer was
//! lost, a time to live ran, or the capacity changed is passed over, and what is held is taken from
//! the answers all the same: there its rows and the [checker](fn@crate::history::check) say more.

mod lost;
mod windows;

pub use lost::windows_with_losses;
pub use windows::{Windows, windows};
