//! The engine: many callers share few transactions.
//!
//! A call becomes a [`Command`] in the [`queue`]. A free [`lane`] takes a batch of commands that share semaphores, and the
//! store decides all of them in one transaction. [`apply`] reads the outcomes. A call that finds no room and may wait
//! stands in the [waiting line](waiting). The engine queues it again when a command of this process releases permits, or when
//! the [`poller`] finds that another process has released some.
//!
//! The store keeps the promises, P1 to P13 of the documentation. The engine makes calls fast, and keeps a part of P11: the order of the callers in this
//! process. It registers its first waiters in the line that the store keeps of all processes.
//!
//! | term | meaning |
//! |---|---|
//! | lane | a batch on its way to the store and back; a semaphore is in one lane at a time, beside those that wait for its lock |
//! | batch | the commands of one lane |
//! | set aside | taken out of a batch, since it needs a row that another transaction keeps locked, or lacks room |
//! | effect | a task that the state machines ask for |
//! | driver | the loop that starts the tasks |
//! | turn | the place of an ask among the asks for the same semaphores, as `decide` gets it |
//! | waiter | a call that found no room and stands in the waiting line |
//! | parked, called | a waiter that stands in line; a waiter that was queued again, since there may be room for it |
//! | unsatisfiable | a waiter that asks for more than the capacity; it steps aside and keeps its place |
//! | key | a semaphore that a template created; see [`waiting`] |
//! | entry | the first waiter of this process in the line that the store keeps for a semaphore |
//! | seniority | how long a waiter has waited, and its priority: its rank among the waiters of all processes |
//! | registration, deregistration | that this process's entry is in the line, or is to be removed from it |
//! | stand | a command of the engine itself: it reads a semaphore, and may save this process's entry |
//! | blocked | a command that needs a row which another transaction keeps locked |
//! | look | a read for changes: of rows by the poller, of lapsed requests for a refused call, of a semaphore whose lock is waited for |
//! | singleflight | several callers that need the same look for lapsed requests share one |
//! | grant cache | what this process knows of requests that were asked for here |
//! | poller | the task that reads what other processes changed, for all waiters |
//! | publisher | writes the list of waiters that other processes and people read |
//!
//! The [`queue`], the [`lane`]s, the [`blocked`] commands, the [waiting line](waiting) and the lists to
//! [publish](publication) are state machines without I/O, whose clock is set from outside. One mutex guards all of them, in
//! [`state`]. They return [effects](effect), and the loop of the [`driver`] performs these: it starts or wakes a task for each.

mod apply;
mod blocked;
mod call;
mod calls;
mod driver;
mod effect;
mod epoch;
mod grant_cache;
mod handle;
mod lane;
mod lapsed;
mod listings;
mod lock_poller;
mod opportunistic_sweep;
mod poller;
mod publication;
mod publisher;
mod queue;
mod reply_to;
mod retry;
mod running_lane;
mod singleflight;
mod state;
mod status;
mod sweep_timer;
mod templates;
mod tokens;
mod upkeep;
mod waiting;

pub(crate) use handle::Engine;
