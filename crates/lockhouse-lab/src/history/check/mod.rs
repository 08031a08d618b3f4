//! Checks each promise against a history and the rows that it left.
//!
//! The checks report only certain breaks. A call without an answer may have taken effect at any time after its beginning, or
//! never.
//!
//! - A request is *surely held* from the first answer that says it was granted. That ends when the first call begins that may
//!   end it, or at the earliest moment at which its TTL may have passed: one TTL after the beginning of the call.
//! - A request is *possibly held* from the beginning of the first call that may have got it. That ends with an answer that
//!   says it is over, or at the latest moment at which its TTL can have passed: one TTL after the answer to the call.
//!
//! These times are by the monotonic clock of the clients' machine. The times in the rows are by the store's clock. The checks
//! allow [`SLACK_US`](slack::SLACK_US) for the difference in pace of the two.
//!
//! | | by the rows | by the history, and by both |
//! |---|---|---|
//! | P1 | at each grant, in the order of the fences, the live permits fit the capacity then in force; no live permits share a slot, and slots are below the capacity | the permits that are surely held at any moment fit the greatest capacity that there ever was |
//! | P2 | `in_use` is the sum of the live permits | |
//! | P3 | an end has a reason and a time, and a stale request has the age of staleness | at most one answer says that its call ended the request; all answers and the row agree on the reason; a call asked for that end, or can have caused it; an answered goodbye has ended all that its owner held |
//! | P4 | | no request is renewed, or ended by a call, after an answer said that it was over, after its TTL had surely passed, or before a caller asked for it |
//! | P5 | a request is there once | all grants under an id show the same permits and fences, at most one of them as new, none after the end, and the same slots; the row has the owner of the ask; only one ask is granted under an id, and a conflict needs two; a repeated ask for a request that is surely held is not refused; a request that was always refused left no row, and no semaphore that a template would make |
//! | P6 | the row has all permits of the ask | the answer has all permits of the ask; no caller sees a deadlock |
//! | P7 | no two grants have one fence, no fence is beyond the semaphore's, and later grants have greater fences | a grant that was asked for after another was answered has the greater fence; the row has the fence of the answer |
//! | P8 | a request ended as expired exactly if its TTL had passed | no answer says that a request expired before its TTL can have passed; an unrenewed request expires its TTL after its grant; one distance between the store's clock and the monotonic one explains all grants; no owner is taken to be silent while its last heartbeat lasts; a client that is awake gets no grant that has expired |
//! | P9 | | every grant, end or renewal that was answered is in the rows; every row was asked for; a semaphore has the capacity of the last answered change, or is deleted if that was a deletion; no call finds a semaphore unknown that surely exists or that a template makes, nor too small for an ask that surely fits; an id that was granted is not unknown later. A breach of P5 or P10 is one of P9 if an answer was lost before |
//! | P10 | | no ask is refused for lack of room while the permits that are possibly held leave enough of it. A request that nobody ended possibly holds its permits until a second after its TTL, or after its owner's session |
//! | P11 | | [`overtaken`] checks it separately: no ask is granted before a waiter that came long before it. No ask is refused for lack of room while all waiters for that room lack a keyed semaphore |
//!
//! A semaphore of a template may be deleted while none of its permits is held. While some are held, its definition is
//! checked.
//!
//! P12 is not decided here. P10 is not decided for semaphores whose capacity changed, nor while
//! they have waiters, or had some a second before: a waiter comes first even if there is room, unless it surely lacks a keyed
//! semaphore (P11). The requests of a session count as held until the session may have lapsed.
//! Purged rows count as lost, so the history must be younger than the purge's age. The age of staleness is the upkeep's
//! default, or that of the [`Circumstances`].
//!
//! The cost is linear in the operations and rows, apart from sorting them and from three scans: of an owner's heartbeats for
//! each of its requests, of a semaphore's capacities for each refusal as too large, and of the moves of a clock for each
//! row.

mod clock;
mod distance;
mod ends;
mod facts;
mod fences;
mod grants;
mod held;
mod keys;
mod known;
mod lost;
mod order;
mod room;
mod scene;
mod sessions;
mod sizes;
mod slack;
mod templates;
#[cfg(test)]
mod tests;

use super::rows::Rows;
use super::{Moved, Operation, Violation, audit};
use distance::Distance;
pub use order::{overtaken, slow_commits};
pub use scene::Circumstances;
use scene::Scene;
use templates::Templates;

/// The violations that the history certainly shows, and the rows that it left, if there are rows.
///
/// The rows must have been read after the last operation ended.
pub fn check(operations: &[Operation], rows: Option<&Rows>) -> Vec<Violation> {
    let usual = Circumstances::default();
    let scene = Scene::new(operations, rows, &usual);
    let mut found = rows.map_or_else(Vec::new, |rows| of_rows(&scene, rows));
    found.extend(broken(&scene));
    found.extend(clock::told_too_late(&scene, |_| true));
    found
}

/// The same under `circumstances`. If the store's clock was moved, lifetimes are checked by the clock as it was, and order by the
/// clock as it should have been.
///
/// A request's lifetime is not judged if the clock was moved during it. Late grants are judged by [`late_grants`] alone.
pub fn check_under(
    circumstances: &Circumstances,
    operations: &[Operation],
    rows: &Rows,
) -> Vec<Violation> {
    let truly = circumstances.moved.set_right(rows);
    let scene = Scene::new(operations, Some(&truly), circumstances);
    let mut found = of_rows(&scene, rows);
    found.extend(broken(&scene));
    found
}

/// The violations in the rows alone, with times as they were written.
fn of_rows(scene: &Scene<'_>, rows: &Rows) -> Vec<Violation> {
    let templates = Templates::of(scene);
    let mut found = audit::broken(rows, scene.moved, |name| templates.match_name(name));
    found.extend(ends::too_young_to_be_stale(rows, scene.stale_after));
    found
}

/// P8: grants that reached their clients after they had expired. Only clients that `is_judged` names are judged:
/// nothing between them and their engine delays answers. A client that is answered over a link uses its own deadline.
pub fn late_grants(
    operations: &[Operation],
    rows: &Rows,
    moved: &Moved,
    is_judged: impl Fn(u32) -> bool,
) -> Vec<Violation> {
    let truly = moved.set_right(rows);
    let circumstances = Circumstances {
        moved: moved.clone(),
        ..Circumstances::default()
    };
    let scene = Scene::new(operations, Some(&truly), &circumstances);
    clock::told_too_late(&scene, is_judged)
}

/// The violations in the history alone, and in history and rows together.
fn broken(scene: &Scene<'_>) -> Vec<Violation> {
    let mut found = held::more_than_there_are(scene);
    let distance = Distance::of(scene);
    for facts in scene.requests.values() {
        found.extend(ends::broken(scene, &distance, facts));
        found.extend(grants::broken(scene, facts));
        found.extend(lost::broken(scene, facts));
    }
    found.extend(fences::broken(scene));
    found.extend(clock::broken(scene, &distance));
    found.extend(sizes::broken(scene));
    found.extend(known::broken(scene));
    found.extend(room::broken(scene));
    found.extend(templates::broken(scene));
    found
}
