//! The connections of one store: a few, opened on demand, and lent to one call at a time.
//!
//! This replaces the driver's pool, which pings after every use, and hides the reason of a failed
//! connection behind a timeout.
//!
//! - A connection goes back only when it is known to be clean: no transaction open, no answer
//!   unread. In any other case, such as a panic or an aborted task, it is closed, and the server
//!   rolls back.
//! - A connection that was idle for a second is pinged before use. If it is broken, the other idle
//!   ones are dropped with it, so that a restart of the server costs one attempt, not one for each
//!   connection.
//! - An idle connection is closed soon, so that a process that only renews from time to time leaves
//!   the server's connections to others. A process that uses connections every few seconds, such as
//!   one with waiters, keeps one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockhouse_core::store::{Connections, Error, Kind};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, Span};

use super::connection::{Answers, Connection, Failed};
use super::driver::Driver;
use super::error::TooLong;
use super::hosts::Hosts;
use super::interruption::{Patience, briefly};
use super::script::Script;
use crate::turns::Turns;

/// How long to wait for a free connection, and then for the server to accept a new one. Several hosts share the latter.
const LEND: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(3);

/// How long a call may take in all, unless it is [extended](Lease::extend). A rollback after it
/// still ends within 10 s.
pub(super) const CALL: Duration = Duration::from_secs(9);

/// How long a rollback may take before the connection is closed instead.
const ROLLBACK: Duration = Duration::from_millis(500);

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

/// Lends connections to one database.
pub(crate) struct Pool<D: Driver> {
    hosts: Arc<Hosts<D>>,
    /// For messages.
    display: String,
    turns: Turns,
    idle: Mutex<Idle<D>>,
    /// Whether a first connection was made.
    has_connected: AtomicBool,
    /// Whether scripts are interrupted.
    patience: Patience,
    /// How many connections were opened.
    opened: AtomicU64,
}

struct Idle<D: Driver> {
    connections: Vec<IdleConnection<D>>,
    /// The last two uses, the older first.
    uses: [Option<Instant>; 2],
    /// Whether a task closes unused connections.
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
        // A process that is not busy keeps one connection: it needed the others only for
        // simultaneous calls.
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
    pub(crate) fn new(hosts: Arc<Hosts<D>>, most: usize) -> Self {
        Self {
            turns: Turns::new(most),
            display: hosts.display(),
            hosts,
            idle: Mutex::new(Idle {
                connections: Vec::new(),
                uses: [None; 2],
                is_watched: false,
            }),
            has_connected: AtomicBool::new(false),
            patience: Patience::new(),
            opened: AtomicU64::new(0),
        }
    }

    /// Interrupts no script for a while, since no gap is locked.
    pub(crate) fn be_patient(&self) {
        self.patience.begin();
    }

    /// Where the database is, for messages.
    pub(crate) fn display(&self) -> &str {
        &self.display
    }

    /// A connection for a call that does `work` for at most so long.
    pub(crate) async fn lend(self: &Arc<Self>, work: Duration) -> Result<Lease<D>, Error> {
        let asked = Instant::now();
        let Some(turn) = self.turns.take(asked + LEND).await else {
            let (most, display) = (self.turns.most(), &self.display);
            let busy = format!("all {most} connections to {display} are busy");
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
            finished: 0,
            is_patient: false,
            _turn: turn,
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

    /// Opens the first connection, and logs warnings about the server. If there may be a pooler, it
    /// opens and closes another one, since only two connections show that they share a session.
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
            tracing::warn!(store = self.display, "{risk}");
        }
        Ok(first)
    }

    async fn connect(&self) -> Result<Connection<D>, Error> {
        let connection = self.hosts.connect(CONNECT).await?;
        self.opened.fetch_add(1, Relaxed);
        Ok(connection)
    }

    /// The connections for calls. The one that listens on PostgreSQL is not among them.
    pub(crate) fn state(&self) -> Connections {
        Connections {
            most: self.turns.most(),
            busy: self.turns.taken(),
            idle: self.idle().connections.len(),
            opened: self.opened.load(Relaxed),
            queued: self.turns.queued(),
        }
    }

    fn drop_idle(&self) {
        let idle = std::mem::take(&mut self.idle().connections);
        drop(idle);
    }

    /// Takes back a clean `connection`, and has a task close it when it stays unused.
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
            // Spawned without holding the mutex: a runtime that shuts down drops the task at once,
            // and that drop locks the mutex.
            runtime.spawn(watching.close_unused());
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle<D>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that closes unused connections. Dropping it lets another begin.
struct Watching<D: Driver> {
    pool: Weak<Pool<D>>,
    is_on: bool,
}

impl<D: Driver> Watching<D> {
    /// Runs until no connection is idle.
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

    /// When the next connection is to be closed.
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
    /// `None` after it turned out to be broken.
    connection: Option<Connection<D>>,
    /// Whether the next call may use the connection.
    clean: bool,
    deadline: Instant,
    /// How many statements of the last script that failed had succeeded.
    finished: usize,
    /// Whether its scripts are not interrupted.
    is_patient: bool,
    _turn: OwnedSemaphorePermit,
}

impl<D: Driver> Lease<D> {
    /// Sets the time that is left for the call to `work`.
    pub(crate) fn extend(&mut self, work: Duration) {
        self.deadline = Instant::now() + work;
    }

    /// Has no script interrupted if it `is_patient`: the server's own limit of a lock wait counts.
    pub(crate) fn be_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// Sets the session as on a cluster node.
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

    /// How many statements of the last script that failed had succeeded.
    pub(crate) fn finished(&self) -> usize {
        self.finished
    }

    /// Runs `script`, and cleans up if it fails: after an error no transaction is open, and unless
    /// the error is [`Kind::Unknown`] the script has changed nothing.
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
        let was_open = !self.clean || connection.is_guarded();
        self.clean = false;
        let is_hasty = script.may_meet_gaps() && !self.is_patient && !self.pool.patience.lasts();
        let interruption = match is_hasty {
            true => connection.interruption().cloned(),
            false => None,
        };
        let run = connection.run(script, self.deadline);
        let run = run.instrument(span::<D>(context));
        let answers = match interruption {
            Some(interruption) => briefly(run, script, interruption, &self.pool.hosts).await,
            None => run.await,
        };
        match answers {
            Ok(answers) => {
                self.clean = !script.leaves_open();
                Ok(answers)
            }
            Err(failed) => {
                self.clean = !script.may_leave_open(failed.finished, was_open);
                Err(self.clean_up(failed, script.commit_at(), context).await)
            }
        }
    }

    /// Rolls back the transaction, if one is open. Closes the connection if that fails.
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
        let Failed {
            finished,
            mut trouble,
        } = failed;
        self.finished = finished;
        let connection = self.connection.as_ref();
        let at_commit = commit.is_some_and(|commit| finished >= commit);
        if let Some(read_only) = connection
            .and_then(Connection::read_only)
            .filter(|_| !at_commit)
        {
            match trouble.into_read_only::<D>(read_only, context) {
                Ok(error) => {
                    // A new session may be allowed to write.
                    self.connection = None;
                    self.pool.drop_idle();
                    return error;
                }
                Err(other) => trouble = other,
            }
        }
        let spared = trouble.spares_connection::<D>();
        // The server stops at the first failing statement and reports it. Without its report the
        // COMMIT may have been executed.
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

fn gone(context: &str) -> Error {
    Error::new(
        Kind::Unavailable,
        format!("{context}: the connection was lost"),
    )
}

/// The span of statements in a traced call. Their text is left out: it has names.
fn span<D: Driver>(context: &str) -> Span {
    if Span::current().is_disabled() {
        return Span::none();
    }
    tracing::debug_span!(
        "statements",
        otel.name = context,
        otel.kind = "client",
        db.system.name = <D::Database as sqlx::Database>::NAME.to_lowercase(),
    )
}
