//! What the checkers say of a segment that is over.

#[cfg(test)]
mod tests;
mod windows;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use super::notes;
use super::segment::{PLAIN, Segment};
use crate::history::{Answer, Call, Moved, Operation, Refused, Rows, check_moved};

/// How far apart the store's clock and the monotonic one may be, once it is known how far they are.
const CLOCKS_APART_US: i64 = 2_000;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// How many operations there were, by kind and answer.
    pub(super) operations: BTreeMap<(&'static str, String), u64>,
    /// How many rows of permits were checked with them.
    pub(super) permits: u64,
    /// How many releases were told to have been the one, and were not.
    pub(super) claims: u64,
    pub(super) windows: u64,
    pub(super) windows_passed_over: u64,
    /// Promises that were broken, in words.
    pub(super) violations: Vec<String>,
}

/// All notes of a segment.
pub(super) fn history(run: &Path, segment: Segment) -> Vec<Operation> {
    let folder = fs::read_dir(segment.folder(run)).unwrap();
    let files = folder.map(|file| file.unwrap().path());
    files.flat_map(|file| notes::read(&file)).collect()
}

/// The history without two kinds of answers that are guesses:
///
/// - Whose grant may have expired before its answer is told that it has, and nobody has looked. So it
///   may still be held for a moment, and it is not known what came of that call.
/// - Who releases once more after a lost answer is told to have been the one, though another may have
///   released it before. Where the row ended before the call was begun, it was not; how many those
///   are is counted.
fn without_guesses(history: &[Operation], rows: &Rows, moved: &Moved) -> (Vec<Operation>, u64) {
    let rows = moved.set_right(rows).permits;
    let ended = rows.iter().filter_map(|row| {
        let at = row.released_at? - moved.ahead;
        Some((row.external_id.as_str(), at))
    });
    let ended: HashMap<_, _> = ended.collect();
    let expired = Answer::Refused(Refused::Ended("expired".to_owned()));
    let (mut history, mut claims) = (history.to_vec(), 0);
    for operation in &mut history {
        let begun = operation.begun.cast_signed() - CLOCKS_APART_US;
        let was_over = |id: &str| ended.get(id).is_some_and(|at| *at < begun);
        let was_over = operation.id().is_some_and(was_over);
        if matches!(operation.call, Call::Acquire(_)) && operation.answer == expired {
            operation.answer = Answer::Unknown;
        } else if let Answer::Ended { now, .. } = &mut operation.answer
            && *now
            && was_over
        {
            *now = false;
            claims += 1;
        }
    }
    (history, claims)
}

/// Checks a segment. Its rows were read when all was over.
pub(super) fn judge(
    segment: Segment,
    history: &[Operation],
    rows: &Rows,
    moved: &Moved,
) -> Verdict {
    let mut verdict = Verdict {
        permits: rows.permits.len() as u64,
        ..Verdict::default()
    };
    for operation in history {
        let kind = (kind(&operation.call), answer(&operation.answer));
        *verdict.operations.entry(kind).or_default() += 1;
    }
    let (history, claims) = without_guesses(history, rows, moved);
    verdict.claims = claims;
    let broken = check_moved(&history, rows, moved);
    verdict.violations = broken.iter().map(ToString::to_string).collect();
    for (name, _) in PLAIN {
        windows::look_at(&mut verdict, &segment.name(name), &history, rows);
    }
    verdict
}

fn kind(call: &Call) -> &'static str {
    match call {
        Call::Acquire(asked) if asked.waits => "acquire and wait",
        Call::Acquire(_) => "acquire",
        Call::Renew { .. } => "renew",
        Call::Release { .. } => "release",
        Call::Force { .. } => "force",
        Call::Define { .. } => "define",
        Call::Delete { .. } => "delete",
        Call::Heartbeat { .. } => "heartbeat",
        Call::Goodbye { .. } => "goodbye",
        Call::Die => "die",
    }
}

fn answer(answer: &Answer) -> String {
    let text = match answer {
        Answer::Granted { now: true, .. } => "granted",
        Answer::Granted { .. } => "granted before",
        Answer::Renewed => "renewed",
        Answer::Ended { now: true, .. } => "ended",
        Answer::Ended { .. } => "ended before",
        Answer::Done => "done",
        Answer::Unknown => "unknown",
        Answer::Refused(refused) => match refused {
            Refused::Exhausted(_) => "no room",
            Refused::TooMuch => "too much",
            Refused::UnknownSemaphore => "no such semaphore",
            Refused::UnknownRequest => "no such request",
            Refused::Ended(_) => "over",
            Refused::Conflict => "conflict",
            Refused::Deadlock => "deadlock",
            Refused::Other(_) => "refused otherwise",
        },
    };
    text.to_owned()
}
