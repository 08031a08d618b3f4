//! P3 and P4: a request ends once, and its end is final.

use std::time::Duration;

use super::distance::Distance;
use super::facts::Facts;
use super::scene::Scene;
use super::slack::SLACK_US;
use crate::history::rows::{PermitRow, Rows};
use crate::history::{Answer, Asked, Call, Operation, Promise, Violation};

pub(super) fn broken(
    scene: &Scene<'_>,
    distance: &Distance<'_>,
    facts: &Facts<'_>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(ended_twice(facts));
    found.extend(other_reasons(facts));
    if scene.rows.is_some() {
        found.extend(still_there(facts));
        found.extend(ended_by_nobody(facts));
        found.extend(outlives_a_goodbye(distance, facts));
    }
    for operation in facts.renewals.iter().chain(&facts.endings) {
        found.extend(goes_on(facts, operation));
    }
    found
}

/// Whether the operation did something to a live request.
fn took_effect(operation: &Operation) -> bool {
    matches!(
        operation.answer,
        Answer::Renewed | Answer::Ended { now: true, .. }
    )
}

/// P3: only one caller is told that its call ended the request.
fn ended_twice(facts: &Facts<'_>) -> Option<Violation> {
    let ended =
        |operation: &&&Operation| matches!(operation.answer, Answer::Ended { now: true, .. });
    let enders: Vec<_> = facts.endings.iter().filter(ended).copied().collect();
    let what = format!("{} was ended {} times", facts.id, enders.len());
    (enders.len() > 1).then(|| Violation::new(Promise::P3, what).by(enders))
}

/// P3: all callers get the same end.
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

/// P3: a request that a caller was told to be over is over. A late holder is told so before its row is ended.
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
            called(|call| matches!(call, Call::Release { .. }))
                || !facts.goodbyes.is_empty()
                || was_given_up(facts)
        }
        "forced" => called(|call| matches!(call, Call::Force { .. })),
        "expired" => facts.ttls().is_some(),
        "owner_dead" => !facts.beats.is_empty(),
        "stale" => facts.ttls().is_none(),
        _ => false,
    };
    let what = format!("{} ended, and nobody said so", facts.id);
    (!there_is_a_cause && !facts.asks.is_empty())
        .then(|| Violation::new(Promise::P3, what).at([*row]))
}

/// Whether a server may have released the grant because its caller had gone away (P10). A client whose connection broke asks
/// again under the same id, and then learns of the end.
fn was_given_up(facts: &Facts<'_>) -> bool {
    let is_over = |ask: &&Operation| ask.says_ended() == Some("released");
    let unanswered = facts.asks.iter().any(|ask| ask.answer == Answer::Unknown);
    unanswered || (facts.asks.iter().any(is_over) && facts.grants().next().is_none())
}

/// P3: a request that a sweep ends as stale has the age of staleness. The times of these rows are the store's own.
pub(super) fn too_young_to_be_stale(rows: &Rows, stale_after: Duration) -> Vec<Violation> {
    let is_too_young = |row: &&PermitRow| {
        let age = row.released_at.map(|at| at.saturating_sub(row.granted_at));
        let age = age.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0)));
        let young = age.is_some_and(|age| age < stale_after);
        young && row.end_reason.as_deref() == Some("stale")
    };
    let found = rows.permits.iter().filter(is_too_young).map(|row| {
        let what = format!("{} ended as stale, and was not", row.external_id);
        Violation::new(Promise::P3, what).at([row])
    });
    found.collect()
}

/// P3: an answered goodbye has ended all that its owner held when the goodbye was begun.
fn outlives_a_goodbye<'a>(distance: &Distance<'_>, facts: &Facts<'a>) -> Option<Violation> {
    let row = facts.rows.first()?;
    let owner = |asked: &'a Asked| asked.owner.as_deref();
    let mut owners = facts.asks.iter().map(|ask| ask.asked().and_then(owner));
    let first = owners.next()?;
    let granted = facts.granted_by(distance)?;
    let said = |goodbye: &&&Operation| goodbye.answer == Answer::Done && granted < goodbye.begun;
    let goodbyes = facts.goodbyes.iter().filter(said);
    let goodbye = goodbyes.min_by_key(|goodbye| goodbye.ended)?;
    let outlives = match row.released_at {
        None => true,
        // The first call that touches an expired request ends it.
        Some(_) if facts.clock_moved || row.end_reason.as_deref() == Some("expired") => false,
        Some(at) => distance.earliest(at).is_some_and(|at| goodbye.ended < at),
    };
    let what = format!("{} goes on, and its owner has said goodbye", facts.id);
    (outlives && owners.all(|other| other == first)).then(|| {
        Violation::new(Promise::P3, what)
            .by(facts.first_ask().into_iter().chain([*goodbye]))
            .at([*row])
    })
}

/// P4: no call changes a request that is over or never existed.
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
