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
//! | P1 | at each grant, in the order of the fences, what is live fits the capacity then in force; no live permits share a slot, and slots are below it | what is surely held at any moment fits the greatest capacity that there ever was |
//! | P2 | `in_use` is the sum of what is live | |
//! | P3 | an end has a reason and a time, and what is stale is as old as that | at most one answer says that it ended a request just now; all answers and the row agree on how; somebody asked for that end, or could be the cause of it; a goodbye that was answered has ended what its owner held |
//! | P4 | | nothing is renewed, and nothing ends just now, after an answer said that it was over, after its time had surely passed, or before anybody asked for it |
//! | P5 | a request is there once | all grants under an id show the same permits and fences, at most one of them as new, none after the end, and the same slots; the row has the owner of the ask; only one ask is granted under an id, and a conflict needs two; what is surely held is not refused to who asks again; what was always refused left no row, and no semaphore that a template would make |
//! | P6 | the row has the permits of the ask, all of them | so has the answer; and no caller sees a deadlock |
//! | P7 | no fence twice, none beyond the semaphore's own, and later grants have greater ones | a grant that was asked for after another was answered has the greater fence; the row has the fence that was told |
//! | P8 | what expired ended when its time had passed, and nothing else did | nothing is told to have expired before its time can have passed; an unrenewed request expires its time to live after its grant; one distance between the store's clock and the monotonic one explains all grants; no owner is taken to be silent while its last heartbeat lasts; a client that is awake gets no grant that has expired |
//! | P9 | | what was told to be granted, ended or renewed is in the rows; what the rows have was asked for; a semaphore has the capacity that was answered last, and is deleted if that was; nobody is told that one is unknown that is surely there, nor that it is too small for what surely fits, nor that there is none for which a template was set; an id that was granted is not unknown later. And a breach of P5 or P10 is one of P9 where an answer was lost before |
//! | P10 | | nobody is refused for lack of room while the permits that are possibly held leave enough of it, a second after the time of what nobody ended, or its owner's |
//! | P11 | | [`overtaken`] decides it apart: nobody is granted what a waiter that came long before was granted later. And nobody is refused for lack of room while all waiters for it lack a keyed semaphore |
//!
//! A semaphore of a template may be deleted while none of its permits is held. While some are held, its definition is
//! checked.
//!
//! P12 is not decided here. P10 is not decided for semaphores whose capacity changed, nor while
//! they have waiters, or had some a second before: a waiter comes first even if there is room, unless it surely lacks a keyed
//! semaphore (P11). The requests of a session count as held until the session may have lapsed.
//! Purged rows count as lost, so the history must be younger than the purge's age. Staleness is checked by the age of the
//! upkeep that swept: by its default, or as [`check_under`] is told.
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

/// All that the history, and the rows that are left where there are some, surely break.
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

/// The same under `circumstances`. If the store's clock was moved, each request goes by the clock as it was, while order is that
/// of the clock as it should have been.
///
/// How long a request lived is not judged where the clock was moved during its life, nor whether a
/// grant was told too late: [`late_grants`] does.
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

/// P8: grants that were told to clients after they had expired. It is judged of those whose answers
/// are not held up between them and the engine that gives them, which are those that `is_judged` says;
/// who is answered over a link goes by its own deadline.
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
