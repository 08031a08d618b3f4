//! Where the answer of a queued command goes.

use lockhouse_core::Place;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::wait_handle::WaitHandle;
use super::waiting::{Answered, Ticket};

/// Where the answer of a command goes.
#[derive(Debug)]
pub(super) enum ReplyTo {
    /// A call.
    Caller(Caller),
    /// A waiter that was called.
    Waiter(Place),
    /// The engine itself, which learns from the answer.
    Engine,
}

impl ReplyTo {
    /// Whether it waits for room.
    pub(super) fn waits(&self) -> bool {
        match self {
            ReplyTo::Caller(caller) => {
                let ticket = caller.ticket.as_ref();
                ticket.is_some_and(|ticket| !ticket.wait.is_over())
            }
            ReplyTo::Waiter(_) => true,
            ReplyTo::Engine => false,
        }
    }
}

/// A call that is queued for the first time.
#[derive(Debug)]
pub(super) struct Caller {
    /// The ticket of an ask.
    pub(super) ticket: Option<Ticket>,
    pub(super) answer: oneshot::Sender<Answer>,
    /// When the call must have its answer.
    pub(super) deadline: Instant,
}

/// The answer to a call.
#[derive(Debug)]
pub(super) enum Answer {
    Decided(Answered),
    /// There was no room, and the call waits in line.
    Waits(WaitHandle),
    /// There was no room, and too many calls wait.
    Overloaded,
}
