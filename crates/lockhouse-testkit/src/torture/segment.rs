//! A run consists of segments of some rounds each. The semaphores, ids and owners of a segment begin with its prefix.
//!
//! No client uses the names of a segment before it begins or after it ends. So its history and its rows are complete, and are
//! checked while the next segment runs. Connections, engines and servers last through all segments.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the clients of a run are numbered: 0 is the run itself.
pub(super) const OURS: u32 = 0;

/// Counted, never waited for and held without a time to live, for less than it takes to be stale: their windows are linearizable.
pub(super) const PLAIN: [(&str, u32); 2] = [("plain-a", 2), ("plain-b", 4)];

/// Fought over by all, with a time to live.
pub(super) const FOUGHT: [(&str, u32); 3] = [("hot", 3), ("warm", 8), ("wide", 40)];

/// Held without a time to live, and given back by nobody: staleness ends what is held.
pub(super) const FORGOTTEN: (&str, u32) = ("forgotten", 8);

/// The age at which a request without a time to live is stale.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(2);

/// Held with a TTL, never waited for and never resized. So the checker can decide for each refusal
/// for lack of room whether there was some (P10).
pub(super) const TIMED: (&str, u32) = ("timed", 4);

/// Asked for with a wait only, and one permit at a time, so that order can be decided (P11).
pub(super) const LINED_UP: (&str, u32) = ("lined-up", 1);

/// Resized all the time.
pub(super) const RESIZED: (&str, u32) = ("resized", 5);

/// Deleted, and defined again.
pub(super) const DELETED: (&str, u32) = ("deleted", 4);

/// Has slots.
pub(super) const SLOTTED: (&str, u32) = ("slotted", 3);

/// The pattern of a template, and what its semaphores have at first. They are resized, and deleted when nobody uses them.
pub(super) const TEMPLATE: (&str, u32) = ("key/*", 2);

/// Semaphores of the template.
pub(super) const KEYED: [(&str, u32); 3] = [("key/a", 2), ("key/b", 2), ("key/c", 2)];

/// The number of tasks of each client that the capacities are meant for. With more tasks, the semaphores that they fight over
/// have more.
const TASKS: u32 = 8;

/// The capacity of a semaphore of `usual` capacity, if each client runs `tasks` tasks.
pub(super) fn capacity_for(tasks: u32, usual: u32) -> u32 {
    usual * tasks.div_ceil(TASKS)
}

/// All with what they have at first.
pub(super) fn semaphores(tasks: u32) -> impl Iterator<Item = (&'static str, u32)> {
    let fought = FOUGHT.into_iter().chain([RESIZED, DELETED]);
    PLAIN
        .into_iter()
        .chain([TIMED, LINED_UP, FORGOTTEN])
        .chain(fought.map(move |(name, usual)| (name, capacity_for(tasks, usual))))
}

/// The number of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment(pub(super) u32);

impl Segment {
    /// The prefix of all names of the segment.
    pub(super) fn prefix(self) -> String {
        format!("s{:05}-", self.0)
    }

    pub(super) fn name(self, semaphore: &str) -> String {
        format!("{}{semaphore}", self.prefix())
    }

    /// Where clients keep their notes.
    pub(super) fn folder(self, run: &Path) -> PathBuf {
        run.join(format!("notes-{:05}", self.0))
    }

    pub(super) fn notes(self, run: &Path, client: u32) -> PathBuf {
        self.folder(run).join(format!("client-{client}"))
    }
}
