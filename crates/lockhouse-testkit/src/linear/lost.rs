//! Windows of a history in which answers were lost, for semaphores whose permits have no TTL.

use std::collections::{BTreeMap, HashSet};

use super::windows::{Windows, windows_of};
use crate::history::{Answer, Call, NEVER, Operation, Refused, Rows};

/// Checks the windows of `semaphore`.
///
/// A request without a TTL whose call was lost exists from then on, or never. The rows and later answers tell which. The
/// check skips the time until then, and the time of a request that went stale.
pub fn windows_with_losses(history: &[Operation], semaphore: &str, rows: &Rows) -> Windows {
    let granted: HashSet<_> = rows
        .permits
        .iter()
        .map(|row| row.external_id.as_str())
        .collect();
    let of_it = |operation: &&Operation| match &operation.call {
        Call::Define { semaphore: of, .. } => of == semaphore,
        Call::Acquire(asked) => {
            let is_lost = operation.answer == Answer::Unknown && !granted.contains(&*asked.id);
            !is_lost && asked.permits.iter().any(|(name, _)| name == semaphore)
        }
        Call::Renew { .. } | Call::Release { .. } | Call::Force { .. } => true,
        _ => false,
    };
    let of_it: Vec<_> = history.iter().filter(of_it).cloned().collect();
    let stale = rows.permits.iter();
    let stale = stale.filter(|row| row.end_reason.as_deref() == Some("stale"));
    let stale = stale.map(|row| row.external_id.as_str()).collect();
    let unclear = unclear(&of_it, semaphore, &stale);
    let answered = of_it
        .into_iter()
        .filter(|operation| operation.answer != Answer::Unknown);
    let answered: Vec<_> = answered.collect();
    windows_of(&answered, semaphore, &unclear)
}

/// The spans in which the answers do not say which permits are held:
///
/// - from the beginning of a call without an answer until an answer shows whether its request is held
/// - around a grant or an end that no answered call made, as when an HTTP request arrives twice
/// - from the ask for a request that went stale until an answer says that it ended
fn unclear(history: &[Operation], semaphore: &str, stale: &HashSet<&str>) -> Vec<(u64, u64)> {
    let mut by_request: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        if let Some(id) = operation.id() {
            by_request.entry(id).or_default().push(operation);
        }
    }
    let mut unclear = Vec::new();
    for (id, operations) in &by_request {
        let is_ours = operations.iter().any(|operation| match &operation.call {
            Call::Acquire(asked) => asked.permits.iter().any(|(name, _)| name == semaphore),
            _ => false,
        });
        if !is_ours {
            continue;
        }
        for lost in operations.iter().filter(|o| o.answer == Answer::Unknown) {
            let told = operations
                .iter()
                .filter(|o| o.begun > lost.begun && tells(&lost.call, o));
            let told = told.map(|told| told.ended).min();
            unclear.push((lost.begun, told.unwrap_or(NEVER)));
        }
        if stale.contains(id) {
            let begun = operations.iter().map(|operation| operation.begun).min();
            let told = operations.iter().filter(|operation| is_over(operation));
            let told = told.map(|told| told.ended).min();
            unclear.extend(begun.map(|begun| (begun, told.unwrap_or(NEVER))));
        }
        unclear.extend(by_unanswered_call(operations, |answer| match answer {
            Answer::Granted { now, .. } => Some(*now),
            // The request was granted before, and the answer to that call was lost.
            Answer::Refused(Refused::Ended(_)) => Some(false),
            _ => None,
        }));
        unclear.extend(by_unanswered_call(operations, |answer| match answer {
            Answer::Ended { now, .. } => Some(*now),
            _ => None,
        }));
    }
    unclear
}

/// The span of a grant or an end that no answered call made: all answers say that an earlier call made it.
fn by_unanswered_call(
    operations: &[&Operation],
    now: fn(&Answer) -> Option<bool>,
) -> Option<(u64, u64)> {
    let told = || {
        operations
            .iter()
            .filter(|operation| now(&operation.answer).is_some())
    };
    if told().any(|operation| now(&operation.answer) == Some(true)) {
        return None;
    }
    let begun = told().map(|operation| operation.begun).min()?;
    let ended = told().map(|operation| operation.ended).min()?;
    Some((begun, ended))
}

/// Whether the answer settles what became of a lost call. A grant tells nothing about an end that is under way.
fn tells(lost: &Call, later: &Operation) -> bool {
    let is_there = matches!(later.answer, Answer::Granted { .. });
    is_over(later) || (is_there && matches!(lost, Call::Acquire(_)))
}

fn is_over(operation: &Operation) -> bool {
    operation.says_ended().is_some()
}
