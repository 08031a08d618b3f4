//! Torture: clients and servers as processes of their own on one database, under every fault that one
//! machine can stage, and checkers that decide over all that they did.
//!
//! By hand, for as long as you like, on a server that is started for the run alone:
//!
//! ```sh
//! scripts/torture --store mysql --faults all --minutes 30 --seed 7
//! scripts/torture --store mysql --faults all --minutes 30 --seed 7 --plan   # what it would do
//! ```
//!
//! Two servers, two clients with an engine of their own and two by HTTP, each with eight tasks, do at
//! random all that a client may (`life`), and write down every call before it is sent (`notes`).
//! Meanwhile the rounds of a [`plan`] begin faults and mend them ([`faults`], `stage`). After each,
//! every server and every client that lives has to have calls answered within 10 s, one of each kind
//! and of every semaphore (`work`, `probe`). After some rounds the segment is over: its rows are read, and the
//! [checker](fn@crate::history::check_moved) decides over all of it, and the
//! [windows](crate::linear) over what they can (`verdict`).
//!
//! The same seed gives the same plan. The clients' actions are drawn from it too, but their timing
//! depends on the machine.

mod client;
pub(crate) mod clock;
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
mod size;
mod stage;
mod verdict;
mod work;

pub use notes::read as read_notes;
pub use report::Report;
pub use run::{STORES, run};
pub use size::Size;
