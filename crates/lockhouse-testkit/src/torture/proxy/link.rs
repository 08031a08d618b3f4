//! The state of a link.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use crate::torture::plan::{Direction, Point};

/// A failure of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::torture) enum Failure {
    /// Every connection is closed, and every new one.
    Cut,
    /// Data in one direction is held back silently.
    OneWay(Direction),
    /// Data gets through a few bytes at a time, with pauses.
    Slow,
    /// The next bytes are nonsense, and then the connection is closed.
    Garbled(Direction),
    /// Half of the next bytes get through, and then the connection is closed.
    ClosedMidPacket(Direction),
    /// For HTTP: a request gets through, and its reply is lost with the connection.
    LostReplies,
    /// For HTTP: replies come late, some of them too late.
    LateReplies,
    /// For HTTP: a request arrives twice.
    RepeatedRequests,
    /// For HTTP: a reply comes twice, perhaps to the next caller.
    RepeatedReplies,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) server: Mutex<String>,
    pub(super) state: watch::Sender<State>,
    pub(super) trap: Mutex<Option<Trap>>,
    pub(super) is_http: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// How many connections there were.
    pub(super) connections: usize,
    /// The connections before this one are silent for good.
    pub(super) dead_before: usize,
    pub(super) failure: Option<Failure>,
}

/// Waits for a COMMIT.
#[derive(Debug)]
pub(super) struct Trap {
    pub(super) point: Point,
    /// Receives the caught COMMIT. Dropping it closes the connection.
    pub(super) caught: mpsc::Sender<Caught>,
}

/// A COMMIT whose connection is held where the trap says, until this is dropped.
#[derive(Debug)]
pub(in crate::torture) struct Caught {
    pub(super) _held: tokio::sync::oneshot::Sender<()>,
}

impl Shared {
    pub(super) fn server(&self) -> String {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.clone()
    }

    pub(super) fn trap(&self) -> std::sync::MutexGuard<'_, Option<Trap>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn is_cut(&self) -> bool {
        self.failure == Some(Failure::Cut)
    }

    pub(super) fn is_dead(&self, nth: usize) -> bool {
        nth < self.dead_before
    }

    /// Whether the proxy reads no data in `direction`.
    pub(super) fn holds_back(&self, nth: usize, direction: Direction) -> bool {
        self.is_dead(nth) || self.failure == Some(Failure::OneWay(direction))
    }
}
