//! The locks that articles show on Redis, and the scenes that break them.
//!
//! Each lock is written as articles show it. A [`Breakpoint`] only stops a client at the weak point of the lock, so that a race that
//! takes months to show in production shows at once. A client of Redlock has a connection to each of five servers. [`try_out`]
//! starts the servers of each scene, and kills them afterwards.

mod client;
mod del;
mod get_del;
mod getset;
mod incr;
mod lock;
mod play;
mod redlock;
mod scene;
mod servers;
mod setnx_expire;
mod subject;
mod told;
mod turns;
mod verdict;

pub use client::{Breakpoint, Client};
pub use lock::{Expected, Lock};
pub use scene::Scene;
pub use subject::{Part, Subject};
pub use turns::Turns;
pub use verdict::{Broken, Verdict, try_out};
