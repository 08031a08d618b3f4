//! The locks that articles show on Redis, and the scenes that break them.
//!
//! Each lock is written as articles show it. A [`Gate`] only delays a client at the weak point of the lock, so that a race
//! that takes months to show in production shows at once. Redlock has a client for each of five servers.

mod client;
mod del;
mod get_del;
mod getset;
mod incr;
mod lock;
mod play;
mod redlock;
mod scene;
mod setnx_expire;
mod turns;

pub use client::{Client, Gate};
pub use lock::Lock;
pub use play::{Nodes, Player, play};
pub use scene::Scene;
pub use turns::Turns;

/// All of them.
pub const ALL: [&dyn Lock; 7] = [
    &setnx_expire::SetnxExpire,
    &getset::Getset,
    &del::Del,
    &get_del::GetDel,
    &incr::Incr,
    &redlock::Redlock,
    &redlock::RedlockCounts,
];
