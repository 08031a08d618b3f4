//! A distributed counting semaphore on the database that you already run.
//!
//! Lockhouse lets N workers, on any number of machines, do something at the same time, and no more
//! than N. The permits are kept in MySQL, MariaDB, PostgreSQL, Redis, Valkey or an SQLite file. One
//! request takes permits of several semaphores or none, can be retried under an id of the caller,
//! and gets a fencing token for each semaphore.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! use lockhouse::Lockhouse;
//!
//! let lockhouse = Lockhouse::connect("memory:").await?; // or mysql://app@db/lockhouse
//! lockhouse.define("backup-slots", 10).await?;
//! let permit = lockhouse.semaphore("backup-slots").acquire().await?; // waits, and renews itself
//! println!("backing up under fence {}", permit.fence("backup-slots"));
//! permit.release().await?; // or drop it
//! # Ok(())
//! # }
//! ```
//!
//! [`Lockhouse::connect`] takes the URL of a database, where this process then decides; or the URL
//! of a `lockhouse serve`, which this process then calls. The rest of the API is the same for both.
//! [`blocking`] has the same calls for programs without async.
//!
//! | to | use |
//! |---|---|
//! | run at most N at once | [`Lockhouse::semaphore`] |
//! | run one at a time; many readers or one writer | [`Lockhouse::mutex`], [`Lockhouse::rwlock`] |
//! | take permits of several semaphores at once, set a TTL, a wait or a priority | [`Lockhouse::request`] |
//! | retry safely after a crash or a lost answer | [`Lockhouse::request_with_id`] |
//! | create semaphores on first use, one for each customer or key | [`Lockhouse::template`] |
//! | keep thousands of holds with one heartbeat | [`Lockhouse::session`] |
//! | write only while the permit is held, and give it back with the same commit | [`caller`] |
//! | see who holds and who waits | [`Lockhouse::holders`], [`Lockhouse::waiting`] |
//! | end what dead holders left | [`Lockhouse::maintain`] |
//! | write a store, or wrap one | [`store`] |
//! | write a server that checks access tokens | [`access`] |
//!
//! # Several semaphores, retries and fences
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! # use lockhouse::Lockhouse;
//! # use std::time::Duration;
//! # let lockhouse = Lockhouse::connect("memory:").await?;
//! # lockhouse.define("backup-slots", 10).await?;
//! # lockhouse.define("network", 5).await?;
//! let permit = lockhouse
//!     .request_with_id("job-abc-123") // or .request() for a fresh id
//!     .permits("backup-slots", 1)
//!     .permits("network", 2)
//!     .ttl(Duration::from_secs(60))
//!     .wait(Duration::from_secs(30))
//!     .acquire()
//!     .await?;
//! upload(permit.fence("network")).await?;
//! permit.release().await?;
//! # async fn upload(_fence: u64) -> Result<(), lockhouse::Error> { Ok(()) }
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//!
//! - **Capacity.** The permits held never exceed the capacity in force when they were granted.
//! - **All or nothing.** A request on several semaphores is granted in one commit or not at all. The order of the
//!   names does not matter, and callers see no deadlock.
//! - **Idempotency.** The same id with the same permits and owner gets the same grant with the same fences, any number
//!   of times, from any process. After its end the answer is [`Refusal::RequestEnded`], never a second grant.
//! - **One line.** Waiters are served by arrival and priority, across all processes that use the store. Between two
//!   processes the order may be off by up to half a second.
//! - **Fences rise.** A later grant on a semaphore has a greater [fence](Permit::fence).
//! - **Nothing leaks.** The permits of a holder that died are free once its TTL is over.
//! - **Definite ends.** A request ends once. A renewal that comes too late is refused.
//!
//! # What it does not guarantee
//!
//! - **A hold is a lease.** The store cannot tell a dead holder from one that is stopped or cut off, so it ends a hold
//!   that is not renewed. Watch [`Permit::lost`], which resolves a tenth of the TTL before the store could grant the
//!   permits to somebody else.
//! - **A process can be paused** between its last look at [`Permit::is_lost`] and its write. No lock service prevents
//!   that. If such a write would do harm, let the resource check the [fence](Permit::fence), or check the hold in the
//!   transaction that writes.
//! - **A store that loses commits loses grants.** After a failover of an asynchronous replica, permits may be held twice;
//!   see [`Lockhouse::raise_epoch`].
//!
//! # Compared with `tokio::sync::Semaphore`
//!
//! | | tokio | here |
//! |---|---|---|
//! | scope | one process | all processes that use the store |
//! | made by | `Semaphore::new(n)` | [`define`](Lockhouse::define), once, by any process; a [`Semaphore`] is a name |
//! | errors | closed | the store may be out of reach, the semaphore unknown or too small |
//! | a permit | borrows; `acquire_owned` needs an `Arc` | borrows nothing |
//! | holding | until it is dropped | as long as it is renewed: a permit can be [lost](Permit::lost) |
//! | order | first come, first served | first come, first served; between processes within half a second |
//! | `try_acquire` | never waits | asks the store; comes after the releases that this client has begun |
//! | dropping a waiting future | gives up the place | gives up the place; a permit granted in that moment is given back |
//! | dropping a permit | gives it back at once | gives it back in the background; see [`Lockhouse::close`] |
//! | `forget` | removes the permit for good | stops renewing; the permit is free again after its TTL |
//! | `add_permits`, `forget_permits` | add and remove | [the](Semaphore::add_permits) [same](Semaphore::forget_permits); [`resize`](Semaphore::resize) is safe to repeat |
//! | `num_permits`, `available_permits`, `MAX_PERMITS` | | [the](Permit::num_permits) [same](Semaphore::available_permits); at most 2³¹−1 permits |
//! | `merge`, `split` | join and part permits | none: a permit is one request, with one id and one fence, that ends once; keep permits in a `Vec` |
//! | `close` | fails all waiters for good | none: a semaphore outlives every process. Resized to 0 it is [closed](Semaphore::is_closed), and waiters wait until it is resized again |
//! | `blocking_acquire` | panics in async code | [`blocking::Semaphore::acquire`], which panics there too |
//!
//! # Cancellation
//!
//! Every future of this crate may be dropped at any time.
//!
//! | dropped future | effect |
//! |---|---|
//! | `acquire`, `lock`, `read`, `write`, and [`RequestBuilder::acquire`] under a fresh id | gives up the place in the line; a permit that was granted in that moment is given back in the background |
//! | [`RequestBuilder::acquire`] under the caller's id | gives up the place; a grant made in that moment stays until its TTL or session ends it, and a retry with the id finds it |
//! | [`Permit::release`] | the release goes on in the background |
//! | [`Permit::lost`], [`Session::lost`], and reads | nothing |
//! | other writes, such as [`Lockhouse::define`] | the call may have been done or not; the same call again is safe, except [`Semaphore::add_permits`] and [`Semaphore::forget_permits`] |
//!
//! # Errors
//!
//! Every call fails with an [`Error`]. [`Error::code`] is the word that the HTTP API uses too.
//!
//! | variant | code | what happened | what to do |
//! |---|---|---|---|
//! | [`Error::Invalid`] | `invalid_request` | a value is malformed or out of bounds | correct the call |
//! | [`Refusal::Exhausted`], [`Refusal::Closed`] | `exhausted` | there was no room now, or not within the wait | wait, or try later |
//! | [`Refusal::ExceedsCapacity`] | `exceeds_capacity` | the request asks for more than the capacity | ask for less, or resize |
//! | [`Refusal::UnknownSemaphore`] | `unknown_semaphore` | no semaphore has the name | define it |
//! | [`Refusal::UnknownRequest`] | `unknown_request` | no request has the id, or it was purged | check the id |
//! | [`Refusal::IdempotencyConflict`] | `idempotency_conflict` | the id belongs to a request with other permits or another owner | pick another id |
//! | [`Refusal::RequestEnded`] | `request_ended` | the request has ended | stop the work; use a new id for a new hold |
//! | [`Refusal::SessionEnded`] | `session_ended` | the owner's session has ended | stop the work; begin a new session |
//! | [`Refusal::CapacityChanged`] | `capacity_changed` | the semaphore has another capacity than expected | read it again |
//! | [`Refusal::SemaphoreInUse`] | `semaphore_in_use` | permits are held, so the semaphore cannot be deleted | try when it is free |
//! | [`Refusal::SlotsDiffer`] | `capacity_changed` | [`Define::if_missing`] found the semaphore with slots where none are wanted, or the other way round | read it again |
//! | [`Refusal::TooManySlots`] | `invalid_request` | slots with a capacity that is too large for them | a smaller capacity, or no slots |
//! | [`Refusal::TokenExists`] | `idempotency_conflict` | an access token has the name | pick another name |
//! | [`Refusal::OfAnotherToken`] | `forbidden` | the request belongs to another access token | use that token, or one with `force` on each semaphore of the request |
//! | [`Refusal::NoTtl`] | `invalid_request` | a renewal without a TTL, of a request without one | pass a TTL |
//! | [`Error::Store`] | `store_unavailable` | the store or the server did not answer | try again; after [`Error::maybe_applied`], with the same id |
//! | [`Error::Overloaded`] | `overloaded` | too many calls wait in the process or the server | back off, then try again |
//! | [`Error::Denied`] | `unauthenticated`, `forbidden` | the server knows no such caller, or does not let it do this | check the token |
//! | [`Error::Internal`] | `internal` | a defect | report it |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! use lockhouse::{Code, Lockhouse};
//!
//! # let lockhouse = Lockhouse::connect("memory:").await?;
//! # lockhouse.define("report", 0).await?;
//! match lockhouse.semaphore("report").try_acquire().await {
//!     Ok(permit) => drop(permit), // do the work first
//!     Err(error) if error.code() == Code::Exhausted => println!("the last report still runs"),
//!     Err(error) if error.is_transient() => println!("try again later: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! These are on by default:
//!
//! | feature | adds |
//! |---|---|
//! | `sqlite` | `sqlite:PATH`, with SQLite built in, and SQL checks of owners on it |
//! | `mysql` | `mysql://` and `mariadb://`, and SQL checks of owners there |
//! | `postgres` | `postgres://`, and SQL checks of owners there |
//! | `redis` | `redis://` and `rediss://`, for Redis and Valkey |
//! | `remote` | `http://` and `https://`, the client of a `lockhouse serve`, and HTTP checks of owners |
//!
//! Three features are off by default: `sqlx-0-8`, `sqlx-0-9` and `tokio-postgres` add
//! [`Permit::held_in`] and [`Permit::finish_in`] for transactions of these drivers; see [`caller`].
//!
//! `memory:` is always there. It is for tests: the permits live in the [`Lockhouse`] and its clones.
//!
//! # When to use something else
//!
//! - **One process**: `tokio::sync::Semaphore` is faster by orders of magnitude and cannot fail.
//! - **So many a second** rather than so many at once: a token bucket, such as the `governor` crate.
//! - **Leader election or configuration** with watches: etcd, ZooKeeper or Consul.
//! - **A lock for the length of one transaction**: the database's own row lock or advisory lock, which ends with the
//!   connection.
//! - **Jobs to be done once each, in order**: a job queue.
//! - **Holds of a few milliseconds, thousands a second, on one semaphore**: each hold is a row that
//!   is committed to disk twice. A counter in memory is faster, and loses its state in a crash.

pub mod access;
mod again;
mod answers;
mod backend;
mod background;
pub mod blocking;
pub mod caller;
mod client;
mod define;
mod engine;
mod error;
mod holding;
mod keeper;
mod listing;
pub mod liveness;
mod mutex;
mod operating;
mod permit;
mod pool;
mod relative;
#[cfg(feature = "remote")]
mod remote;
mod request;
mod rwlock;
mod semaphore;
mod session;
pub mod store;
mod suspects;
mod template;
mod upkeep;
mod who;

pub use access::options::ConnectOptions;
pub use access::secret::Secret;
pub use answers::{Raised, Released};
pub use client::Lockhouse;
pub use define::Define;
pub use holding::Lost;
pub use liveness::OwnerPattern;
pub use lockhouse_core::store::{Cursor, Held, Waiter};
pub use lockhouse_core::{
    Ask, Capacity, CapacityChange, Code, Count, EndReason, Epoch, Error, ExternalId, Finding,
    Grant, Heard, Idle, Invalid, Note, Origin, Owner, OwnerSession, Pattern, Priority, Refusal,
    Request, SemaphoreName, SemaphoreStatus, Slots, State, Template, Timestamp, Token, TokenGrant,
    TokenName, Ttl,
};
pub use lockhouse_stores::without_credentials;
pub use mutex::Mutex;
pub use permit::Permit;
pub use request::RequestBuilder;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use session::Session;
pub use template::DefineTemplate;
pub use upkeep::{Maintaining, Swept, Upkeep, UpkeepState};
