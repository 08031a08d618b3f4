//! P5 and P6: an ask is granted at most once, and in full.

use super::facts::Facts;
use super::scene::Scene;
use super::slack::SLACK_US;
use crate::history::rows::PermitRow;
use crate::history::{Answer, Asked, Held, Operation, Promise, Refused, Violation};

pub(super) fn broken(scene: &Scene<'_>, facts: &Facts<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(granted_twice(facts));
    found.extend(granted_after_its_end(facts));
    found.extend(conflict_with_nothing(facts));
    found.extend(refused_what_it_holds(facts));
    found.extend(by_halves(facts));
    found.extend(deadlock(facts));
    if scene.rows.is_some() {
        found.extend(left_a_trace(facts));
        found.extend(row_by_halves(facts));
        found.extend(row_of_another(facts));
    }
    found
}

/// The broken promise: P5, or P9 if an answer was lost before.
fn again(facts: &Facts<'_>, operation: &Operation) -> Promise {
    if facts.was_lost(operation.begun) {
        Promise::P9
    } else {
        Promise::P5
    }
}

/// P5: all answers show the same grant, and only one shows it as new.
fn granted_twice(facts: &Facts<'_>) -> Option<Violation> {
    let mut grants = facts.grants();
    let (first, held, mut new) = grants.next()?;
    for (other, other_held, now) in grants {
        let same = sorted(held) == sorted(other_held) && asked_alike(first.asked(), other.asked());
        if !same || (now && new) {
            let what = format!("{} was granted twice", facts.id);
            return Some(Violation::new(again(facts, other), what).by([first, other]));
        }
        new |= now;
    }
    None
}

/// P5: a request is never granted again after its end.
fn granted_after_its_end(facts: &Facts<'_>) -> Option<Violation> {
    for (grant, _, now) in facts.grants() {
        let over = facts.told_over().filter(|over| over.ended < grant.begun);
        let expired = facts.lives_at_most_to(grant.begun);
        let had_expired = expired.is_some_and(|at| grant.begun > at + SLACK_US);
        let first = facts
            .first_grant()
            .filter(|first| first.ended < grant.begun);
        if over.is_none() && !(had_expired && first.is_some()) {
            continue;
        }
        let what = format!("{} was over, and is granted (now: {now})", facts.id);
        let promise = again(facts, grant);
        let shown = over.or(first).into_iter().chain([grant]);
        return Some(Violation::new(promise, what).by(shown));
    }
    None
}

/// P5: a conflict needs another ask under the same id.
fn conflict_with_nothing(facts: &Facts<'_>) -> Option<Violation> {
    let may_stand = |ask: &&&Operation| {
        let answer = &ask.answer;
        matches!(answer, Answer::Granted { .. } | Answer::Unknown) || ask.says_ended().is_some()
    };
    let is_alone = |refused: &&&Operation| {
        let mut others = facts.asks.iter().filter(may_stand);
        !others.any(|ask| ask.begun < refused.ended && !asked_alike(ask.asked(), refused.asked()))
    };
    let conflict = |ask: &&&Operation| ask.answer == Answer::Refused(Refused::Conflict);
    let refused = facts.asks.iter().filter(conflict).find(is_alone)?;
    let what = format!("{} stands for no other ask", facts.id);
    Some(Violation::new(Promise::P5, what).by([*refused]))
}

/// P5: a holder that asks again is told that it holds its request.
fn refused_what_it_holds(facts: &Facts<'_>) -> Option<Violation> {
    let first = facts.first_ask()?;
    for ask in &facts.asks {
        let held = facts.first_grant().filter(|grant| grant.ended < ask.begun);
        let no_room = matches!(
            ask.answer,
            Answer::Refused(Refused::Exhausted(_) | Refused::TooMuch)
        );
        let lives_to = facts.lives_at_least_to(ask.begun);
        let surely = ask.ended < facts.may_end_from()
            && lives_to.is_none_or(|to| ask.ended + SLACK_US < to)
            && ask.ended < facts.kept_to
            && !facts.clock_moved
            && asked_alike(first.asked(), ask.asked());
        if let Some(held) = held.filter(|_| no_room && surely) {
            let what = format!("{} is held, and refused", facts.id);
            return Some(Violation::new(again(facts, ask), what).by([held, ask]));
        }
    }
    None
}

/// P5: a refused ask leaves no row.
fn left_a_trace(facts: &Facts<'_>) -> Option<Violation> {
    let row = facts.rows.first().filter(|_| facts.was_always_refused())?;
    let what = format!("{} was refused, and is there", facts.id);
    Some(
        Violation::new(Promise::P5, what)
            .by(facts.asks.first().copied())
            .at([*row]),
    )
}

/// P6: the answer has all permits of the ask.
fn by_halves(facts: &Facts<'_>) -> Option<Violation> {
    let (grant, ..) = facts.grants().find(|(grant, held, _)| {
        let asked = grant.asked().map(pairs);
        asked.is_some_and(|asked| asked != held_pairs(held))
    })?;
    let what = format!("{} was granted as another ask", facts.id);
    Some(Violation::new(Promise::P6, what).by([grant]))
}

/// P6: the rows have all permits of the ask.
fn row_by_halves(facts: &Facts<'_>) -> Option<Violation> {
    let asked = facts.asked().filter(|_| !facts.rows.is_empty())?;
    let of_row = |row: &&PermitRow| (row.semaphore.clone(), row.count);
    let mut rows: Vec<_> = facts.rows.iter().map(of_row).collect();
    rows.sort();
    let what = format!("{} has other permits than it asked for", facts.id);
    (rows != pairs(asked)).then(|| {
        let rows = facts.rows.iter().copied();
        Violation::new(Promise::P6, what)
            .by(facts.first_ask())
            .at(rows)
    })
}

/// P5: the rows have the owner of the ask.
fn row_of_another(facts: &Facts<'_>) -> Option<Violation> {
    let asked = facts.asked()?;
    let row = facts.rows.iter().find(|row| row.owner != asked.owner)?;
    let what = format!(
        "{} is {:?}'s, and has an owner {:?}",
        facts.id, asked.owner, row.owner
    );
    let found = Violation::new(Promise::P5, what).by(facts.first_ask());
    Some(found.at([*row]))
}

/// P6: callers may name semaphores in any order without a deadlock.
fn deadlock(facts: &Facts<'_>) -> Option<Violation> {
    let dead = |operation: &&Operation| operation.answer == Answer::Refused(Refused::Deadlock);
    let operation = facts.operations().find(dead)?;
    let what = format!("{} failed by a deadlock", facts.id);
    Some(Violation::new(Promise::P6, what).by([operation]))
}

fn asked_alike(one: Option<&Asked>, other: Option<&Asked>) -> bool {
    one.map(|asked| (pairs(asked), &asked.owner)) == other.map(|asked| (pairs(asked), &asked.owner))
}

fn pairs(asked: &Asked) -> Vec<(String, i64)> {
    let mut permits = asked.permits.clone();
    permits.sort();
    permits
}

fn held_pairs(held: &[Held]) -> Vec<(String, i64)> {
    let pair = |held: &Held| (held.semaphore.clone(), held.count);
    let mut pairs: Vec<_> = held.iter().map(pair).collect();
    pairs.sort();
    pairs
}

fn sorted(held: &[Held]) -> Vec<(&str, i64, Option<i64>, Option<&str>)> {
    let mut held: Vec<_> = held
        .iter()
        .map(|one| (&*one.semaphore, one.count, one.fence, one.slots.as_deref()))
        .collect();
    held.sort_unstable();
    held
}
