//! The connections of one store: a few, opened when they are needed, and lent one call at a time.
//!
//! Not the driver's pool: that one pings after every use, and it hides why it could not connect
//! behind a timeout.
//!
//! - A connection goes back only when it is known to be clean: no transaction open, no answer
//!   unread. In any other case, a panic or a cut-off task among them, it is closed, and the server
//!   rolls back.
//! - One that was idle for a second is pinged first. When one is found broken, the other idle ones
//!   are dropped with it: if the server has restarted, that costs one attempt, not one each.
//! - One that is idle is closed soon, so that a process that only renews from time to time leaves its place at the
//!   server to others. A process that uses connections every few seconds, as one in line does, keeps one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockhouse_core::store::{Error, Kind, PoolUse};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::connection::{Answers, Connection, Failed};
use super::dialect::Driver;
use super::error::TooLong;
use super::peer;
use super::script::Script;
use super::url::Location;

/// How long to wait for a free connection, and then for the server to accept a new one.
const LEND: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(3);

/// After so long without an answer, the kind of the server is looked at.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a call may take, all in all, unless it is [extended](Lease::extend). What follows it, a
/// rollback, still ends within 10 s.
pub(super) const CALL: Duration = Duration::from_secs(9);

/// How long a rollback may take before the connection is closed instead.
const ROLLBACK: Duration = Duration::from_millis(500);

/// After so long without use a connection is pinged first.
const FRESH: Duration = Duration::from_secs(1);

/// After so long without use a connection is closed, in a process that seldom uses one, and in one that often does.
const BRIEFLY: Duration = Duration::from_millis(250);
const KEPT: Duration = Duration::from_secs(5);

/// A process often uses connections that did so three times within this.
const OFTEN: Duration = Duration::from_secs(10);

/// A process that did so within this is busy.
const BUSY: Duration = Duration::from_millis(2_500);

/// Uses within this are one: a process that polls every few seconds has several things to do then.
const ONE_USE: Duration = Duration::from_secs(1);

/// Lends connections to one database.
pub(crate) struct Pool<D: Driver> {
    location: Location<D>,
    places: Arc<Semaphore>,
    idle: Mutex<Idle<D>>,
    /// Whether a first connection was made.
    has_connected: AtomicBool,
}

struct Idle<D: Driver> {
    connections: Vec<IdleConnection<D>>,
    /// The last two uses, the older first.
    uses: [Option<Instant>; 2],
    /// Whether a task closes those that nobody uses.
    is_watched: bool,
}

struct IdleConnection<D: Driver> {
    connection: Connection<D>,
    since: Instant,
    until: Instant,
}

impl<D: Driver> Idle<D> {
    fn push(&mut self, connection: Connection<D>) {
        let since = Instant::now();
        let used_within = |time| self.uses[0].is_some_and(|used| since - used < time);
        let (is_often, is_busy) = (used_within(OFTEN), used_within(BUSY));
        if self.uses[1].is_none_or(|used| since - used >= ONE_USE) {
            self.uses = [self.uses[1], Some(since)];
        }
        // A process that is not busy keeps one: others were needed for what was done at the same time.
        let is_kept = is_busy || is_often && self.connections.is_empty();
        let until = since + if is_kept { KEPT } else { BRIEFLY };
        self.connections.push(IdleConnection {
            connection,
            since,
            until,
        });
    }
}

impl<D: Driver> Pool<D> {
    /// A pool that has not connected yet.
    pub(crate) fn new(location: Location<D>) -> Self {
        Self {
            places: Arc::new(Semaphore::new(location.connections)),
            location,
            idle: Mutex::new(Idle {
                connections: Vec::new(),
                uses: [None; 2],
                is_watched: false,
            }),
            has_connected: AtomicBool::new(false),
        }
    }

    /// Where the database is, for messages.
    /// The connections to the server, now.
    pub(crate) fn in_use(&self) -> PoolUse {
        let most = self.location.connections;
        PoolUse {
            most,
            in_use: most - self.places.available_permits(),
            idle: self.idle().connections.len(),
        }
    }

    pub(crate) fn display(&self) -> &str {
        &self.location.display
    }

    /// A connection for a call that does `work` for at most so long.
    pub(crate) async fn lend(self: &Arc<Self>, work: Duration) -> Result<Lease<D>, Error> {
        let asked = Instant::now();
        let place = timeout_at(asked + LEND, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            let busy = format!(
                "all {} connections to {} are busy",
                self.location.connections, self.location.display
            );
            return Err(Error::new(Kind::Unavailable, busy));
        };
        let connection = match self.reuse().await {
            Some(connection) => connection,
            None if self.has_connected.load(Relaxed) => self.connect().await?,
            None => self.connect_first().await?,
        };
        Ok(Lease {
            pool: Arc::clone(self),
            connection: Some(connection),
            clean: true,
            deadline: (Instant::now() + work).min(asked + CALL),
            _place: place,
        })
    }

    async fn reuse(&self) -> Option<Connection<D>> {
        let mut last = {
            let mut idle = self.idle();
            let now = Instant::now();
            idle.connections.retain(|idle| now < idle.until);
            idle.connections.pop()?
        };
        if last.since.elapsed() < FRESH || last.connection.is_alive().await {
            return Some(last.connection);
        }
        self.drop_idle();
        None
    }

    /// The first connection, and what there is to say of the server. Where a pooler may stand in
    /// between, another is opened and closed, since it takes two to see that they share a session.
    async fn connect_first(&self) -> Result<Connection<D>, Error> {
        let first = self.connect().await?;
        if D::MAY_BE_POOLED {
            match self.connect().await {
                Ok(second) => second.close().await,
                Err(error) if error.kind() == Kind::Configuration => return Err(error),
                Err(_) => {}
            }
        }
        if !self.has_connected.swap(true, Relaxed)
            && let Some(risk) = first.risk()
        {
            tracing::warn!(store = self.location.display, "{risk}");
        }
        Ok(first)
    }

    async fn connect(&self) -> Result<Connection<D>, Error> {
        let opening = timeout_at(Instant::now() + CONNECT, Connection::open(&self.location));
        let silence = async {
            sleep(SILENCE).await;
            peer::of_another_kind(&self.location).await
        };
        let opened = tokio::select! {
            biased;
            opened = opening => opened,
            Some(error) = silence => return Err(error),
        };
        let error = match opened {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) if is_no_protocol(&error) => {
                peer::of_another_kind(&self.location).await.unwrap_or(error)
            }
            Ok(Err(error)) => error,
            Err(_) => {
                let display = &self.location.display;
                let silent = format!("connecting to {display}: no answer within {CONNECT:?}");
                Error::new(Kind::Unavailable, silent)
            }
        };
        Err(error)
    }

    fn drop_idle(&self) {
        let idle = std::mem::take(&mut self.idle().connections);
        drop(idle);
    }

    /// Takes `connection`, which is clean, and has a task close it when nobody uses it.
    fn give_back(self: &Arc<Self>, connection: Connection<D>) {
        let runtime = Handle::try_current();
        let mut idle = self.idle();
        idle.push(connection);
        let begins = runtime.is_ok() && !idle.is_watched;
        idle.is_watched |= begins;
        drop(idle);
        if let (true, Ok(runtime)) = (begins, runtime) {
            let watching = Watching {
                pool: Arc::downgrade(self),
                is_on: true,
            };
            // Without the lock: a runtime that shuts down drops the task at once, and that takes the lock.
            runtime.spawn(watching.close_unused());
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle<D>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that closes connections that nobody uses. However it ends, another may begin.
struct Watching<D: Driver> {
    pool: Weak<Pool<D>>,
    is_on: bool,
}

impl<D: Driver> Watching<D> {
    /// Goes on until none is idle.
    async fn close_unused(mut self) {
        while let Some(at) = self.next() {
            sleep_until(at).await;
            let Some(pool) = self.pool.upgrade() else {
                return;
            };
            let now = Instant::now();
            let unused = |idle: &mut IdleConnection<D>| idle.until <= now;
            let unused: Vec<_> = pool.idle().connections.extract_if(.., unused).collect();
            for unused in unused {
                unused.connection.close().await;
            }
        }
    }

    /// When there is one to close.
    fn next(&mut self) -> Option<Instant> {
        let pool = self.pool.upgrade()?;
        let mut idle = pool.idle();
        let next = idle.connections.iter().map(|idle| idle.until).min();
        if next.is_none() {
            idle.is_watched = false;
            self.is_on = false;
        }
        next
    }
}

impl<D: Driver> Drop for Watching<D> {
    fn drop(&mut self) {
        if let (true, Some(pool)) = (self.is_on, self.pool.upgrade()) {
            pool.idle().is_watched = false;
        }
    }
}

/// A connection that is lent to one call, until it is dropped.
pub struct Lease<D: Driver> {
    pool: Arc<Pool<D>>,
    /// None after it turned out to be broken.
    connection: Option<Connection<D>>,
    /// Whether the next call may have it as it is.
    clean: bool,
    deadline: Instant,
    _place: OwnedSemaphorePermit,
}

impl<D: Driver> Lease<D> {
    /// Gives the call so long from now on, whatever it was given before.
    pub(crate) fn extend(&mut self, work: Duration) {
        self.deadline = Instant::now() + work;
    }

    /// Makes the session as it is on a node of a cluster.
    #[cfg(test)]
    pub(crate) async fn guard(&mut self) {
        let connection = self.connection.as_mut().expect("a connection is lent");
        connection.guard().await.expect("a session is set");
    }

    /// Whether the server takes a script as long as this.
    pub(crate) fn takes(&self, script: &Script) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.takes(script))
    }

    /// Runs `script`, and cleans up when that fails: after an error no transaction is open, and
    /// unless the error is [`Kind::Unknown`] the script has changed nothing.
    pub(crate) async fn run(
        &mut self,
        script: &Script,
        context: &str,
    ) -> Result<Answers<D>, Error> {
        let connection = self.connection.as_mut().ok_or_else(|| gone(context))?;
        if !connection.takes(script) {
            self.roll_back().await;
            let too_long = TooLong {
                bytes: script.text().len(),
                limit: D::LONGEST_SCRIPT_IS,
            };
            return Err(Error::new(Kind::Rejected, context).caused_by(too_long));
        }
        self.clean = false;
        match connection.run(script, self.deadline).await {
            Ok(answers) => {
                self.clean = !script.leaves_open();
                Ok(answers)
            }
            Err(failed) => Err(self.clean_up(failed, script.commit_at(), context).await),
        }
    }

    /// Ends the transaction, if one is open, without its changes. Closes the connection if that
    /// can't be done.
    pub(crate) async fn roll_back(&mut self) {
        if self.clean {
            return;
        }
        let Some(connection) = &mut self.connection else {
            return;
        };
        let rollback = Script::of("ROLLBACK");
        let deadline = Instant::now() + ROLLBACK;
        match connection.run(&rollback, deadline).await {
            Ok(_) => self.clean = true,
            Err(_) => self.connection = None,
        }
    }

    async fn clean_up(&mut self, failed: Failed, commit: Option<usize>, context: &str) -> Error {
        let Failed { finished, trouble } = failed;
        let spared = trouble.spares_connection::<D>();
        // The server stops at the first statement that fails, and says so. Without its word the
        // COMMIT may have been done.
        let error = match commit {
            Some(commit) if !trouble.is_servers_word() || finished >= commit => {
                trouble.at_commit::<D>(context)
            }
            _ => trouble.before_commit::<D>(context),
        };
        if spared && error.kind() != Kind::Unknown {
            self.roll_back().await;
        } else {
            self.connection = None;
            self.pool.drop_idle();
        }
        error
    }
}

impl<D: Driver> Drop for Lease<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.clean) {
            self.pool.give_back(connection);
        }
    }
}

/// Whether the server said what no server of this kind says.
fn is_no_protocol(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let driver = source.and_then(|source| source.downcast_ref::<sqlx::Error>());
    matches!(driver, Some(sqlx::Error::Protocol(_)))
}

fn gone(context: &str) -> Error {
    Error::new(
        Kind::Unavailable,
        format!("{context}: the connection was lost"),
    )
}
