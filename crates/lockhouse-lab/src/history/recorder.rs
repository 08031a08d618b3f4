//! Records calls and their answers.

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::time::{ClockId, clock_gettime};

use super::{Answer, Call, NEVER, Operation};

/// The machine's monotonic clock, in microseconds.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Unix has this clock");
    let us = now.tv_sec() as i64 * 1_000_000 + now.tv_nsec() as i64 / 1_000;
    us.unsigned_abs()
}

/// Where calls are noted.
pub trait Notebook: fmt::Debug + Send + Sync {
    /// Notes a call before it is sent, and returns the place of the note.
    fn begin(&self, client: u32, call: Call) -> usize;

    /// Notes the answer of the call at `place`.
    fn end(&self, place: usize, answer: &Answer);
}

/// Awaits `answer` to `call`, and notes both. A call that is dropped on the way stays noted as unknown.
pub(super) async fn record(
    notes: &dyn Notebook,
    client: u32,
    call: Call,
    answer: impl Future<Output = Answer>,
) -> Answer {
    let place = notes.begin(client, call);
    let answer = answer.await;
    notes.end(place, &answer);
    answer
}

/// A history in the making, in memory.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Operation>>);

impl Recorder {
    /// Awaits `answer` to `call`, and notes both. A call that is dropped on the way stays noted as unknown.
    pub async fn record(
        &self,
        client: u32,
        call: Call,
        answer: impl Future<Output = Answer>,
    ) -> Answer {
        record(self, client, call, answer).await
    }

    /// Notes that the client makes no calls from now on.
    pub fn dies(&self, client: u32) {
        let place = self.begin(client, Call::Die);
        let operation = &mut self.operations()[place];
        operation.ended = operation.begun;
        operation.answer = Answer::Done;
    }

    /// The operations that were recorded so far.
    pub fn history(&self) -> Vec<Operation> {
        self.operations().clone()
    }

    /// Each note is whole, so a poisoned lock guards whole notes.
    fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notebook for Recorder {
    fn begin(&self, client: u32, call: Call) -> usize {
        let mut operations = self.operations();
        operations.push(Operation {
            client,
            call,
            begun: now_us(),
            ended: NEVER,
            answer: Answer::Unknown,
        });
        operations.len() - 1
    }

    fn end(&self, place: usize, answer: &Answer) {
        let ended = now_us();
        let operation = &mut self.operations()[place];
        operation.ended = ended;
        operation.answer = answer.clone();
    }
}
