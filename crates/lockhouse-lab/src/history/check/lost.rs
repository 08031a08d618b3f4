//! P9: the rows have everything that was answered, and nothing that no call asked for.

use super::facts::Facts;
use super::scene::Scene;
use crate::history::{Answer, Operation, Promise, Refused, Violation};

pub(super) fn broken(scene: &Scene<'_>, facts: &Facts<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(forgotten(facts));
    if scene.rows.is_some() {
        found.extend(not_there(facts));
        found.extend(nobody_asked(facts));
    }
    found
}

/// An answered grant that has no row.
fn not_there(facts: &Facts<'_>) -> Option<Violation> {
    let known = |operation: &Operation| {
        matches!(
            operation.answer,
            Answer::Granted { .. } | Answer::Renewed | Answer::Ended { .. }
        )
    };
    let told = facts.operations().find(|operation| known(operation));
    let told = told.filter(|_| facts.rows.is_empty())?;
    let what = format!("{} is not there", facts.id);
    Some(Violation::new(Promise::P9, what).by([told]))
}

/// A row that no call can have made.
fn nobody_asked(facts: &Facts<'_>) -> Option<Violation> {
    let row = facts.rows.first().filter(|_| facts.asks.is_empty())?;
    let what = format!("{} is there, and nobody asked for it", facts.id);
    Some(Violation::new(Promise::P9, what).at([*row]))
}

/// A granted request that a later call finds unknown.
fn forgotten(facts: &Facts<'_>) -> Option<Violation> {
    let grant = facts.first_grant()?;
    let unknown = |o: &Operation| o.answer == Answer::Refused(Refused::UnknownRequest);
    let forgotten = facts
        .operations()
        .find(|o| unknown(o) && grant.ended < o.begun)?;
    let what = format!("{} was granted, and is unknown", facts.id);
    Some(Violation::new(Promise::P9, what).by([grant, forgotten]))
}
