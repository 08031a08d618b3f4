//! A run consists of segments of some rounds each. The semaphores, ids and owners of a segment begin with its prefix.
//!
//! No client uses the names of a segment before it begins or after it ends. So its history and its rows are complete, and are
//! checked while the next segment runs. Connections, engines and servers last through all segments.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The client number of the run itself.
pub(super) const OURS: u32 = 0;

/// Semaphores without waiters, whose requests have no TTL and never get stale. [`linear`](crate::linear) checks their windows.
pub(super) const PLAIN: [(&str, u32); 2] = [("plain-a", 2), ("plain-b", 4)];

/// Semaphores that all tasks want, with a TTL.
pub(super) const FOUGHT: [(&str, u32); 3] = [("hot", 3), ("warm", 8), ("wide", 40)];

/// A semaphore whose requests have no TTL and are never released. Staleness ends them.
pub(super) const FORGOTTEN: (&str, u32) = ("forgotten", 8);

/// The age at which a request without a time to live is stale.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(2);

/// A semaphore without waiters and without resizes, whose requests have a TTL. So the checker can decide whether a refusal
/// for lack of room was right (P10).
pub(super) const TIMED: (&str, u32) = ("timed", 4);

/// A semaphore for which every ask waits, for one permit, so that the order can be checked (P11).
pub(super) const LINED_UP: (&str, u32) = ("lined-up", 1);

/// A semaphore that is resized all the time.
pub(super) const RESIZED: (&str, u32) = ("resized", 5);

/// A semaphore that is deleted and defined again.
pub(super) const DELETED: (&str, u32) = ("deleted", 4);

/// A semaphore with slots.
pub(super) const SLOTTED: (&str, u32) = ("slotted", 3);

/// The pattern of a template, and its first capacity. Its semaphores are resized, and deleted when unused.
pub(super) const TEMPLATE: (&str, u32) = ("key/*", 2);

/// Semaphores of the template.
pub(super) const KEYED: [(&str, u32); 3] = [("key/a", 2), ("key/b", 2), ("key/c", 2)];

/// The number of tasks of each client for which the capacities are meant. With more tasks, capacities are larger.
const TASKS: u32 = 8;

/// The capacity of a semaphore of `usual` capacity, if each client runs `tasks` tasks.
pub(super) fn capacity_for(tasks: u32, usual: u32) -> u32 {
    usual * tasks.div_ceil(TASKS)
}

/// All semaphores, with their first capacities.
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

    /// The folder of the clients' notes.
    pub(super) fn folder(self, run: &Path) -> PathBuf {
        run.join(format!("notes-{:05}", self.0))
    }

    pub(super) fn notes(self, run: &Path, client: u32) -> PathBuf {
        self.folder(run).join(format!("client-{client}"))
    }
}
