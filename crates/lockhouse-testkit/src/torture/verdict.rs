//! The verdict of the checkers on a segment that has ended.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::probe::shows;
use super::segment::{PLAIN, Segment, TIMED};
use super::{client, notes};
use crate::history::{
    Answer, Call, Circumstances, Moved, Operation, Refused, Rows, check_under, late_grants,
    overtaken,
};
use crate::linear::windows_with_losses;
use crate::{answers, rows};

/// The error of the measured distance between the store's clock and the monotonic clock.
const CLOCKS_APART_US: i64 = 2_000;

/// How long after the end of a fault calls may still meet the dead connections that it left.
const TROUBLE_LASTS_US: u64 = 1_000_000;

/// The findings.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The number of operations, by kind and answer.
    pub(super) operations: BTreeMap<(&'static str, String), u64>,
    /// How many rows of permits were checked with them.
    pub(super) permits: u64,
    /// How many of these permits ended for each reason.
    pub(super) ended: BTreeMap<String, u64>,
    /// How many releases several callers claim.
    pub(super) guesses: u64,
    pub(super) windows: u64,
    pub(super) windows_passed_over: u64,
    /// How many refusals for lack of room were decided on semaphores whose permits expire.
    pub(super) refusals: u64,
    /// How many pairs of asks were decided and in order (P11).
    pub(super) in_turn: u64,
    /// The longest time from the beginning of a cluster's fault until a caller was served.
    pub(super) served_again: Duration,
    /// Broken promises, in words.
    pub(super) violations: Vec<String>,
}

/// When faults were active.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// When answers may have been lost.
    pub(super) lost: Vec<(u64, u64)>,
    /// When the faults of a cluster in this segment had begun, and how long the cluster may serve no caller after that.
    pub(super) begun: Vec<(u64, Duration)>,
}

/// All notes of a segment.
pub(super) fn history(run: &Path, segment: Segment) -> Vec<Operation> {
    let folder = fs::read_dir(segment.folder(run)).unwrap();
    let files = folder.map(|file| file.unwrap().path());
    files.flat_map(|file| notes::read(&file)).collect()
}

/// The history without claims that are guesses. A caller that repeats a release after a lost answer
/// cannot distinguish its own release from another's shortly before or in between. So two callers
/// can be answered that they ended the request. The additional claims are counted. Without a lost
/// answer no claim is a guess, so this is accepted only at `troubled` times. A deletion that comes
/// twice then finds nothing, as it has deleted the semaphore itself.
fn without_guesses(
    history: &[Operation],
    rows: &Rows,
    moved: &Moved,
    troubled: &[(u64, u64)],
) -> (Vec<Operation>, u64) {
    let rows = moved.set_right(rows).permits;
    let ended = rows.iter().filter_map(|row| {
        let at = row.released_at? - moved.ahead;
        Some((row.external_id.as_str(), at))
    });
    let ended: HashMap<_, _> = ended.collect();
    let (mut history, mut guesses) = (history.to_vec(), 0);
    let mut claimed = HashSet::new();
    for operation in &mut history {
        let in_trouble = troubled
            .iter()
            .any(|(from, to)| *from <= operation.ended && operation.begun <= to + TROUBLE_LASTS_US);
        let is_deletion = matches!(operation.call, Call::Delete { .. });
        if is_deletion
            && in_trouble
            && operation.answer == Answer::Refused(Refused::UnknownSemaphore)
        {
            operation.answer = Answer::Done;
        }
        let (begun, until) = (operation.begun.cast_signed(), operation.ended.cast_signed());
        let from = begun - (until - begun);
        let Some((&id, &at)) = operation.id().and_then(|id| ended.get_key_value(id)) else {
            continue;
        };
        let claim = match &mut operation.answer {
            Answer::Ended { now, .. } if *now => now,
            _ => continue,
        };
        let is_guess = (from - CLOCKS_APART_US..=until + CLOCKS_APART_US).contains(&at)
            || moved.between(operation.begun, operation.ended);
        let was_over = at < begun - CLOCKS_APART_US;
        if in_trouble && is_guess && (was_over || !claimed.insert(id)) {
            *claim = false;
            guesses += 1;
        }
    }
    (history, guesses)
}

/// Checks a segment. Its rows were read after its last call.
pub(super) fn judge(
    segment: Segment,
    history: &[Operation],
    rows: &Rows,
    (circumstances, troubles): (&Circumstances, &Troubles),
) -> Verdict {
    let moved = &circumstances.moved;
    let mut verdict = Verdict {
        permits: rows.permits.len() as u64,
        ..Verdict::default()
    };
    for reason in rows.permits.iter().filter_map(|row| row.end_reason.clone()) {
        *verdict.ended.entry(reason).or_default() += 1;
    }
    for operation in history {
        let kind = (kind(&operation.call), answer(&operation.answer));
        *verdict.operations.entry(kind).or_default() += 1;
    }
    let (history, guesses) = without_guesses(history, rows, moved, &troubles.lost);
    verdict.guesses = guesses;
    let mut broken = check_under(circumstances, &history, rows);
    broken.extend(late_grants(&history, rows, moved, client::has_engine));
    let (overtaken, in_turn) = overtaken(&history, &circumstances.away);
    verdict.in_turn = in_turn;
    broken.extend(overtaken);
    verdict.violations = broken.iter().map(ToString::to_string).collect();
    verdict.violations.extend(answers::unexplained(&history));
    for (from, bound) in &troubles.begun {
        let after = served_after(&history, *from);
        verdict.served_again = verdict.served_again.max(after);
        if after > *bound {
            let what =
                format!("somebody was served {after:.1?} after a fault, of {bound:?} at most");
            verdict.violations.push(what);
        }
    }
    verdict.refusals = refusals_decided(&history, &segment.name(TIMED.0));
    for (name, _) in PLAIN {
        let windows = windows_with_losses(&history, &segment.name(name), rows);
        verdict.windows += windows.linearizable as u64;
        verdict.windows_passed_over += windows.passed_over as u64;
        verdict.violations.extend(windows.said());
    }
    verdict
}

/// How long after `from` a call was served that began since then.
fn served_after(history: &[Operation], from: u64) -> Duration {
    let since = history.iter().filter(|operation| operation.begun >= from);
    let served = since.filter(|operation| shows(&operation.answer, 1));
    let ended = served.map(|operation| operation.ended).min();
    ended.map_or(Duration::MAX, |at| Duration::from_micros(at - from))
}

/// How many refusals for lack of room on `semaphore` the checker decides. It decides them if the semaphore was defined once,
/// and while it has no waiters.
fn refusals_decided(history: &[Operation], semaphore: &str) -> u64 {
    let defined = history.iter().filter(|operation| match &operation.call {
        Call::Define { semaphore: of, .. } | Call::Delete { semaphore: of } => of == semaphore,
        _ => false,
    });
    if defined.count() != 1 {
        return 0;
    }
    let asks = history.iter().filter(|operation| match &operation.call {
        Call::Acquire(asked) => asked.permits.iter().any(|(name, _)| name == semaphore),
        _ => false,
    });
    let waits = asks.clone().filter(|ask| match &ask.call {
        Call::Acquire(asked) => asked.waits,
        _ => false,
    });
    let waits: Vec<_> = waits.map(|ask| (ask.begun, ask.ended)).collect();
    let decided = asks.filter(|ask| match &ask.answer {
        Answer::Refused(Refused::Exhausted(on)) => {
            let meets = |(from, to): &(u64, u64)| *from <= ask.ended && ask.begun <= *to;
            on.iter().any(|name| name == semaphore) && !waits.iter().any(meets)
        }
        _ => false,
    });
    decided.count() as u64
}

/// Writes the findings and the rows beside the notes of a segment.
pub(super) fn keep(
    run: &Path,
    segment: Segment,
    verdict: &Verdict,
    (rows, moved): (&Rows, &Moved),
) {
    let folder = segment.folder(run);
    let mut text = format!("{moved:?}\n");
    for row in rows::lines(rows) {
        text.push_str(&row);
        text.push('\n');
    }
    fs::write(folder.join("rows"), text).unwrap();
    fs::write(folder.join("verdict"), verdict.violations.join("\n\n")).unwrap();
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
        Call::Template { .. } => "template",
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
