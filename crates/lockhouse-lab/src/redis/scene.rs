//! The scenes that a lock goes through.

/// A scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`about` describes them")]
pub enum Scene {
    DiesHalfway,
    DeadHolder,
    LateRelease,
    SlowRelease,
    FastClock,
    FoundExpiredByTwo,
    PausedHolder,
    LostNode,
    JumpedClock,
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

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Scene::DiesHalfway => "dies-halfway",
            Scene::DeadHolder => "dead-holder",
            Scene::LateRelease => "late-release",
            Scene::SlowRelease => "slow-release",
            Scene::FastClock => "fast-clock",
            Scene::FoundExpiredByTwo => "found-expired-by-two",
            Scene::PausedHolder => "paused-holder",
            Scene::LostNode => "lost-node",
            Scene::JumpedClock => "jumped-clock",
            Scene::Reordered => "reordered",
        }
    }

    /// A description in one line.
    pub fn about(self) -> &'static str {
        match self {
            Scene::DiesHalfway => "a client dies in the middle of its acquire",
            Scene::DeadHolder => "a holder dies, while others come and go",
            Scene::LateRelease => {
                "a holder releases after its TTL, when another client has the permit"
            }
            Scene::SlowRelease => "a holder's TTL passes in the middle of its release",
            Scene::FastClock => "a client's clock is an hour fast",
            Scene::FoundExpiredByTwo => {
                "two clients find at once that a dead holder's TTL has passed"
            }
            Scene::PausedHolder => {
                "a holder pauses past its TTL, and then writes to what the permit protects"
            }
            Scene::LostNode => "a server is killed and restarted while a client holds a permit",
            Scene::JumpedClock => {
                "a server's clock jumps an hour ahead while a client holds a permit"
            }
            Scene::Reordered => {
                "the messages of three clients arrive in another order at each server"
            }
        }
    }

    pub(super) fn capacity(self) -> u32 {
        match self {
            Scene::DeadHolder | Scene::Reordered => 2,
            _ => 1,
        }
    }
}
