//! Where the answer of a queued command goes.

use lockhouse_core::Place;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::wait_handle::WaitHandle;
use super::waiting::{Answered, Ticket, Wait};

/// Where the answer of a command goes.
#[derive(Debug)]
pub(super) enum ReplyTo {
    /// To a call.
    Caller(Caller),
    /// To a waiter, which was called.
    Waiter(Place),
    /// To the engine itself, which learns from it.
    Engine,
}

/// A call that asks for the first time.
#[derive(Debug)]
pub(super) struct Caller {
    /// The place of an ask.
    pub(super) ticket: Option<Ticket>,
    pub(super) answer: oneshot::Sender<Answer>,
    /// When it must have its answer.
    pub(super) deadline: Instant,
}

/// The answer to a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// The store decided it.
    Decided(Answered),
    /// There was no room, and it waits.
    Waits(WaitHandle),
    /// There was no room, and too many wait.
    Overloaded,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) enum Response {
    /// To a call: the store decided it, or too many wait.
    Caller(oneshot::Sender<Answer>, Answer),
    /// To a call: it waits.
    Waits(oneshot::Sender<Answer>, Parked),
    /// To a waiter.
    Waiter(oneshot::Sender<Answered>, Answered),
}

/// A call that was put in the waiting line.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) place: Place,
    pub(super) wait: Wait,
    /// Receives the answer.
    pub(super) answered: oneshot::Receiver<Answered>,
}
