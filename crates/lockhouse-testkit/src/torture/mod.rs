//! Torture: clients and servers as separate processes on one database, under every fault that one machine can stage.
//! Checkers then decide whether the run kept the promises.
//!
//! A run takes any time, on a server that is started for it alone:
//!
//! ```sh
//! scripts/torture --store mysql --faults all --minutes 30 --seed 7
//! scripts/torture --store mysql --faults all --minutes 30 --seed 7 --plan   # what it would do
//! ```
//!
//! There are two servers, two clients with an embedded engine, and two clients by HTTP. The eight tasks of each client make
//! all kinds of calls at random (`life`), and note every call before it is sent (`notes`). Meanwhile the rounds of a
//! [`plan`] begin faults and end them ([`faults`], `stage`). After each round, every server and every live client must get
//! answers within 10 s: to a heartbeat, and to an ask for every semaphore (`work`, `probe`). A segment ends after some
//! rounds. Then its rows are read, the [checker](fn@crate::history::check_under) checks the segment, and
//! [`linear`](crate::linear) checks its windows where that is possible (`verdict`). Its rows are purged while the next segment
//! runs. The rows of the running segment are audited again and again, except during faults of the database (`audit`).
//!
//! The database may be a cluster of three nodes, each with a server: `scripts/cluster-run`.
//!
//! The same seed gives the same plan. The clients' actions are drawn from it too, but their timing
//! depends on the machine.

mod audit;
mod client;
mod clock;
mod cluster;
mod console;
mod crew;
mod database;
pub mod faults;
mod files;
mod life;
mod notes;
pub mod part;
pub mod plan;
mod probe;
mod process;
mod proxy;
mod report;
mod run;
mod segment;
mod short;
mod size;
mod stage;
mod topology;
mod verdict;
mod work;

pub use cluster::try_several_writers;
pub use notes::read as read_notes;
pub use report::Report;
pub use run::{STORES, run};
pub use short::short;
pub use size::Size;
pub use topology::Topology;
