//! The connections that are not in use, until one is needed again, or it is closed.
//!
//! - A connection that was idle for a second is pinged before use. If it is broken, the other idle
//!   ones are dropped with it, so that a restart of the server costs one attempt, not one for each
//!   connection.
//! - An idle connection is closed soon, so that a process that only renews from time to time leaves
//!   the server's connections to others. A process that uses connections every few seconds, such as
//!   one with waiters, keeps one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use super::driver::Driver;

/// After this long without use a connection is pinged before use.
const FRESH: Duration = Duration::from_secs(1);

/// After this long without use a connection is closed: in a process that seldom uses one, and in
/// one that often does.
const BRIEFLY: Duration = Duration::from_millis(250);
const KEPT: Duration = Duration::from_secs(5);

/// A process with three uses within this time uses connections often.
const OFTEN: Duration = Duration::from_secs(10);

/// A process with three uses within this time is busy.
const BUSY: Duration = Duration::from_millis(2_500);

/// Uses within this time count as one: a process that polls every few seconds makes several calls
/// then.
const ONE_USE: Duration = Duration::from_secs(1);

/// The idle connections of a pool. A clone has the same ones.
pub(super) struct Idle<D: Driver>(Arc<Mutex<IdleConnections<D>>>);

struct IdleConnections<D: Driver> {
    connections: Vec<Unused<D>>,
    /// The one outside those for calls.
    spare: Option<Unused<D>>,
    /// The last two uses, the older first.
    uses: [Option<Instant>; 2],
    /// Whether a task closes unused connections.
    is_watched: bool,
}

struct Unused<D: Driver> {
    connection: Connection<D>,
    since: Instant,
    until: Instant,
}

impl<D: Driver> Clone for Idle<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Driver> Idle<D> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(IdleConnections {
            connections: Vec::new(),
            spare: None,
            uses: [None; 2],
            is_watched: false,
        })))
    }

    /// How many there are, for calls.
    pub(super) fn count(&self) -> usize {
        self.state().connections.len()
    }

    /// The connection that was used last, if the server still answers on it. If not, all idle connections are dropped.
    pub(super) async fn take(&self) -> Option<Connection<D>> {
        let last = {
            let mut state = self.state();
            let now = Instant::now();
            state.connections.retain(|idle| now < idle.until);
            state.connections.pop()?
        };
        let alive = last.if_alive().await;
        if alive.is_none() {
            self.drop_all();
        }
        alive
    }

    /// Keeps a clean `connection`, and has a task close it when it stays unused.
    pub(super) fn keep(&self, connection: Connection<D>) {
        self.watched(|state| state.push(connection));
    }

    /// The one outside those for calls, if there is one and the server still answers on it.
    pub(super) async fn take_spare(&self) -> Option<Connection<D>> {
        let spare = self.state().spare.take()?;
        spare.if_alive().await
    }

    /// Keeps `connection` as the one outside those for calls. If there is one, that is dropped.
    pub(super) fn keep_spare(&self, connection: Connection<D>) {
        let spare = Unused::of(connection, KEPT);
        let before = self.watched(|state| state.spare.replace(spare));
        drop(before);
    }

    /// Drops those for calls.
    pub(super) fn drop_all(&self) {
        let all = std::mem::take(&mut self.state().connections);
        drop(all);
    }

    fn watched<T>(&self, change: impl FnOnce(&mut IdleConnections<D>) -> T) -> T {
        let runtime = Handle::try_current();
        let mut state = self.state();
        let changed = change(&mut state);
        let begins = runtime.is_ok() && !state.is_watched;
        state.is_watched |= begins;
        drop(state);
        if let (true, Ok(runtime)) = (begins, runtime) {
            let watching = Watching {
                idle: Arc::downgrade(&self.0),
                is_on: true,
            };
            // Spawned without holding the mutex: a runtime that shuts down drops the task at once,
            // and that drop locks the mutex.
            runtime.spawn(watching.close_unused());
        }
        changed
    }

    fn state(&self) -> MutexGuard<'_, IdleConnections<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Driver> IdleConnections<D> {
    fn push(&mut self, connection: Connection<D>) {
        let now = Instant::now();
        let used_within = |time| self.uses[0].is_some_and(|used| now - used < time);
        let (is_often, is_busy) = (used_within(OFTEN), used_within(BUSY));
        if self.uses[1].is_none_or(|used| now - used >= ONE_USE) {
            self.uses = [self.uses[1], Some(now)];
        }
        // A process that is not busy keeps one connection: it needed the others only for
        // simultaneous calls.
        let is_kept = is_busy || is_often && self.connections.is_empty();
        let kept = if is_kept { KEPT } else { BRIEFLY };
        self.connections.push(Unused::of(connection, kept));
    }

    /// Those that were to be closed by `now`.
    fn take_unused(&mut self, now: Instant) -> Vec<Unused<D>> {
        let is_unused = |unused: &mut Unused<D>| unused.until <= now;
        let spare = self.spare.take_if(is_unused);
        let unused = self.connections.extract_if(.., is_unused);
        unused.chain(spare).collect()
    }

    /// When the next one is to be closed.
    fn next(&self) -> Option<Instant> {
        let all = self.connections.iter().chain(&self.spare);
        all.map(|unused| unused.until).min()
    }
}

impl<D: Driver> Unused<D> {
    fn of(connection: Connection<D>, kept: Duration) -> Self {
        let since = Instant::now();
        Self {
            connection,
            since,
            until: since + kept,
        }
    }

    async fn if_alive(mut self) -> Option<Connection<D>> {
        let is_alive = self.since.elapsed() < FRESH || self.connection.is_alive().await;
        is_alive.then_some(self.connection)
    }
}

/// The task that closes unused connections. Dropping it lets another begin.
struct Watching<D: Driver> {
    idle: Weak<Mutex<IdleConnections<D>>>,
    is_on: bool,
}

impl<D: Driver> Watching<D> {
    /// Runs until no connection is idle.
    async fn close_unused(mut self) {
        while let Some(at) = self.next() {
            sleep_until(at).await;
            let Some(idle) = self.idle.upgrade().map(Idle) else {
                return;
            };
            let unused = idle.state().take_unused(Instant::now());
            for unused in unused {
                unused.connection.close().await;
            }
        }
    }

    /// When the next connection is to be closed.
    fn next(&mut self) -> Option<Instant> {
        let idle = Idle(self.idle.upgrade()?);
        let mut state = idle.state();
        let next = state.next();
        if next.is_none() {
            state.is_watched = false;
            self.is_on = false;
        }
        next
    }
}

impl<D: Driver> Drop for Watching<D> {
    fn drop(&mut self) {
        if let (true, Some(idle)) = (self.is_on, self.idle.upgrade()) {
            Idle(idle).state().is_watched = false;
        }
    }
}
