//! One call that waits for permits.

use lockhouse_core::{Ask, Outcome, PlaceInLine, Refusal, SemaphoreName, Seniority, store};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ticket::Ticket;

/// The final answer to a waiter.
pub(in crate::engine) type Answered = Result<Outcome, store::Error>;

/// A waiting call.
#[derive(Debug)]
pub(in crate::engine) struct WaitingCall {
    /// The place under which its call knows it.
    pub(super) first_place: PlaceInLine,
    pub(in crate::engine) ticket: Ticket,
    pub(in crate::engine) ask: Ask,
    /// Why it was last refused: its answer when its wait ends.
    pub(in crate::engine) refused: Refusal,
    pub(in crate::engine) answer: oneshot::Sender<Answered>,
    pub(super) state: WaiterState,
    pub(super) is_called: bool,
    /// The keys that it lacks while it is parked. It then stands in the lines of no other
    /// semaphores.
    pub(super) lacking_keys: Vec<SemaphoreName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterState {
    Parked,
    Unsatisfiable,
    Queued,
    InLane,
    /// It needs a locked row, and blocks nobody meanwhile.
    Locked,
    Gone,
}

impl WaitingCall {
    pub(super) fn seniority(&self, now: Instant) -> Seniority {
        Seniority::new(self.ticket.waited(now), self.ask.priority)
    }
}
