//! The scenes that a lock goes through.

/// A scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A client dies in the middle of its acquire.
    DiesHalfway,
    /// A holder dies, while others come and go.
    DeadHolder,
    /// A holder releases when its time has passed, and somebody else has the permit.
    LateRelease,
    /// A release takes so long that the permit expires meanwhile, and somebody else gets it.
    SlowRelease,
    /// A client's clock is an hour fast.
    FastClock,
    /// Two find at once that the time of a dead holder has passed.
    FoundExpiredByTwo,
    /// A holder stands still beyond its time, and then writes to what the permit protects.
    PausedHolder,
    /// A server is restarted; without its data, unless it keeps it on disk.
    LostNode,
    /// A server's clock jumps an hour ahead.
    JumpedClock,
    /// The messages of three clients arrive in another order at each server.
    Reordered,
}

impl Scene {
    /// All of them.
    pub const ALL: [Scene; 10] = [
        Scene::DiesHalfway,
        Scene::DeadHolder,
        Scene::LateRelease,
        Scene::SlowRelease,
        Scene::FastClock,
        Scene::FoundExpiredByTwo,
        Scene::PausedHolder,
        Scene::LostNode,
        Scene::JumpedClock,
        Scene::Reordered,
    ];

    pub(super) fn capacity(self) -> u32 {
        match self {
            Scene::DeadHolder | Scene::Reordered => 2,
            _ => 1,
        }
    }
}
