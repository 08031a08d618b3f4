//! The locks, and Lockhouse, that go through scenes.

use super::del::Del;
use super::get_del::GetDel;
use super::getset::Getset;
use super::incr::Incr;
use super::lock::{Expected, Lock};
use super::redlock::{Redlock, RedlockCounts};
use super::scene::Scene;
use super::setnx_expire::SetnxExpire;

/// A lock in a scene, and what is expected of it there.
pub type Part = (Subject, &'static Expected);

/// A lock, or Lockhouse.
#[derive(Clone, Copy)]
pub enum Subject {
    /// A lock that is written by hand.
    Hand(&'static dyn Lock),
    /// Lockhouse, on one server with its data on disk.
    Lockhouse,
}

impl Subject {
    /// All of them.
    pub const ALL: [Subject; 8] = [
        Subject::Hand(&SetnxExpire),
        Subject::Hand(&Getset),
        Subject::Hand(&Del),
        Subject::Hand(&GetDel),
        Subject::Hand(&Incr),
        Subject::Hand(&Redlock),
        Subject::Hand(&RedlockCounts),
        Subject::Lockhouse,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Hand(lock) => lock.name(),
            Subject::Lockhouse => "lockhouse",
        }
    }

    /// A description in one line.
    pub fn about(self) -> &'static str {
        match self {
            Subject::Hand(lock) => lock.about(),
            Subject::Lockhouse => "Lockhouse itself, on one server with its data on disk",
        }
    }

    /// The scenes of the subject, with their outcomes. Lockhouse goes through all scenes.
    pub fn parts(self) -> impl Iterator<Item = Part> {
        let expected = match self {
            Subject::Hand(lock) => lock.expected(),
            Subject::Lockhouse => LOCKHOUSE,
        };
        expected.iter().map(move |expected| (self, expected))
    }
}

const LOCKHOUSE: &[Expected] = &[
    kept(
        Scene::DiesHalfway,
        "a grant and its TTL are one write, so the permit expires",
    ),
    kept(
        Scene::DeadHolder,
        "each permit has a separate TTL, which other clients do not extend",
    ),
    kept(
        Scene::LateRelease,
        "a release ends one request by its id, and that request has ended",
    ),
    kept(
        Scene::SlowRelease,
        "a release checks and writes in one step, so nothing comes in between",
    ),
    kept(
        Scene::FastClock,
        "the server's clock decides expiry, and no client's",
    ),
    kept(
        Scene::FoundExpiredByTwo,
        "the first client is granted the permit in one write, and the second one is refused",
    ),
    kept(
        Scene::PausedHolder,
        "the next grant has a higher fence, so the resource refuses the late write",
    ),
    kept(
        Scene::LostNode,
        "the server reads what it has on disk, so the second client is refused",
    ),
    kept(
        Scene::JumpedClock,
        "the permit expires early; the next grant has a higher fence, so the resource refuses the late write",
    ),
    kept(
        Scene::Reordered,
        "one server decides, so the third client is refused",
    ),
];

const fn kept(scene: Scene, why: &'static str) -> Expected {
    let breaks = &[];
    Expected { scene, breaks, why }
}
