//! Where the answer of a queued command goes.

use lockhouse_core::PlaceInLine;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use super::waiting::{Answered, Ticket};

/// Where the answer of a command goes.
#[derive(Debug)]
pub(super) enum ReplyTo {
    /// A call.
    Caller(Caller),
    /// A waiter that was called.
    Waiter(PlaceInLine),
    /// The engine itself, which learns from the answer.
    Engine,
}

impl ReplyTo {
    /// The span of the call.
    pub(super) fn span(&self) -> Option<&Span> {
        match self {
            ReplyTo::Caller(caller) => Some(&caller.span).filter(|span| !span.is_disabled()),
            ReplyTo::Waiter(_) | ReplyTo::Engine => None,
        }
    }

    /// When the call must have its answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            ReplyTo::Caller(caller) => Some(caller.deadline),
            ReplyTo::Waiter(_) | ReplyTo::Engine => None,
        }
    }

    /// Whether it waits for room `now`.
    pub(super) fn waits(&self, now: Instant) -> bool {
        match self {
            ReplyTo::Caller(caller) => {
                let ticket = caller.ticket.as_ref();
                ticket.is_some_and(|ticket| !ticket.wait.is_over(now))
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
    /// The span of the call. The batch is in its trace.
    pub(super) span: Span,
}

/// The answer to a call.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all answers are of the large variant"
)]
pub(super) enum Answer {
    Decided(Answered),
    /// There was no room, and the call waits in line for this answer.
    Waits(oneshot::Receiver<Answered>),
    /// There was no room, and too many calls wait.
    Overloaded,
}
