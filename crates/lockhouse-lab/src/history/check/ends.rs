//! P3 and P4: a request ends once, and that is its end.

use super::{Facts, SLACK_US, Scene};
use crate::history::{Answer, Call, Operation, Promise, Violation};

pub(super) fn broken(scene: &Scene<'_>, facts: &Facts<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(ended_twice(facts));
    found.extend(other_reasons(facts));
    if scene.rows.is_some() {
        found.extend(still_there(facts));
        found.extend(ended_by_nobody(facts));
    }
    for operation in facts.renewals.iter().chain(&facts.endings) {
        found.extend(goes_on(facts, operation));
    }
    found
}

/// Whether it did something to a live request.
fn took_effect(operation: &Operation) -> bool {
    matches!(
        operation.answer,
        Answer::Renewed | Answer::Ended { now: true, .. }
    )
}

/// P3: only one is told that it was the one.
fn ended_twice(facts: &Facts<'_>) -> Option<Violation> {
    let ended =
        |operation: &&&Operation| matches!(operation.answer, Answer::Ended { now: true, .. });
    let enders: Vec<_> = facts.endings.iter().filter(ended).copied().collect();
    let what = format!("{} was ended {} times", facts.id, enders.len());
    (enders.len() > 1).then(|| Violation::new(Promise::P3, what).by(enders))
}

/// P3: everybody is told of the same end.
fn other_reasons(facts: &Facts<'_>) -> Option<Violation> {
    let mut told = facts.operations().filter(|o| o.says_ended().is_some());
    let first = told.next();
    let row = facts.rows.first();
    let reason = first.and_then(Operation::says_ended);
    let reason = reason.or(row.and_then(|row| row.end_reason.as_deref()))?;
    if let Some(other) = told.find(|operation| operation.says_ended() != Some(reason)) {
        let what = format!("{} ended in two ways", facts.id);
        return Some(Violation::new(Promise::P3, what).by(first.into_iter().chain([other])));
    }
    let row = row.filter(|row| row.end_reason.as_deref().is_some_and(|own| own != reason))?;
    let what = format!("{} ended in two ways", facts.id);
    Some(Violation::new(Promise::P3, what).by(first).at([*row]))
}

/// P3: what was told to be over is over; but who is late is told so before the row is ended.
fn still_there(facts: &Facts<'_>) -> Option<Violation> {
    let told = facts
        .told_over()
        .filter(|told| told.says_ended() != Some("expired"))?;
    let row = facts.rows.iter().find(|row| row.released_at.is_none())?;
    let what = format!("{} was told to be over, and is live", facts.id);
    Some(Violation::new(Promise::P3, what).by([told]).at([*row]))
}

/// P3: somebody ended it.
fn ended_by_nobody(facts: &Facts<'_>) -> Option<Violation> {
    let row = facts.rows.first()?;
    let called = |wanted: fn(&Call) -> bool| facts.endings.iter().any(|o| wanted(&o.call));
    let there_is_a_cause = match row.end_reason.as_deref()? {
        "released" => {
            called(|call| matches!(call, Call::Release { .. })) || !facts.goodbyes.is_empty()
        }
        "forced" => called(|call| matches!(call, Call::Force { .. })),
        "expired" => facts.ttls().is_some(),
        "owner_dead" => facts.has_session,
        _ => facts.ttls().is_none(),
    };
    let what = format!("{} ended, and nobody said so", facts.id);
    (!there_is_a_cause && !facts.asks.is_empty())
        .then(|| Violation::new(Promise::P3, what).at([*row]))
}

/// P4: nothing is done to what is over, or was never there.
fn goes_on(facts: &Facts<'_>, operation: &Operation) -> Option<Violation> {
    if !took_effect(operation) {
        return None;
    }
    let id = facts.id;
    let found = |what: String, by: Option<&Operation>| {
        Some(Violation::new(Promise::P4, what).by(by.into_iter().chain([operation])))
    };
    let Some(ask) = facts.first_ask().filter(|ask| ask.begun < operation.ended) else {
        return found(format!("{id} was never asked for"), None);
    };
    let over = facts
        .told_over()
        .filter(|over| over.ended < operation.begun);
    if let Some(over) = over {
        return found(format!("{id} was over, and goes on"), Some(over));
    }
    let lives_to = facts.lives_at_most_to(operation.begun)?;
    let late = operation.begun > lives_to + SLACK_US;
    late.then(|| found(format!("{id} had expired, and goes on"), Some(ask)))?
}
