//! The connections of one store: a few, opened on demand, and lent to one call at a time.
//!
//! This replaces the driver's pool, which pings after every use, and hides the reason of a failed
//! connection behind a timeout.
//!
//! - A connection goes back only when it is known to be clean: no transaction open, no answer
//!   unread. In any other case, such as a panic or an aborted task, it is closed, and the server
//!   rolls back.
//! - A connection that is not lent is [`idle`](super::idle).
//! - A further connection, the [`spare`](super::spare) one, interrupts calls that wait for locked gaps: all others may be lent
//!   to such calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{Connections, Error, Kind};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::connection::{Answers, Connection, Failed};
use super::driver::Driver;
use super::error::TooLong;
use super::hosts::Hosts;
use super::idle::Idle;
use super::interruption::{Patience, briefly};
use super::script::Script;
use super::spare::Spare;
use crate::bulkhead::Bulkhead;

/// How long to wait for a free connection, and then for the server to accept a new one. Several hosts share the latter.
const LEND: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(3);

/// How long a call may take in all, unless it is [extended](Lease::extend). A rollback after it
/// still ends within 10 s.
pub(super) const CALL: Duration = Duration::from_secs(9);

/// How long a rollback may take before the connection is closed instead.
const ROLLBACK: Duration = Duration::from_millis(500);

/// Lends connections to one database.
pub(crate) struct Pool<D: Driver> {
    hosts: Arc<Hosts<D>>,
    /// For messages.
    display: String,
    bulkhead: Bulkhead,
    idle: Idle<D>,
    /// Whether a first connection was made.
    has_connected: AtomicBool,
    /// How long scripts may wait for locked gaps.
    patience: Patience,
    /// How many connections were opened.
    opened: AtomicU64,
}

impl<D: Driver> Pool<D> {
    /// A pool that has not connected yet.
    pub(crate) fn new(hosts: Arc<Hosts<D>>, most: usize) -> Self {
        Self {
            bulkhead: Bulkhead::new(most),
            display: hosts.display(),
            hosts,
            idle: Idle::new(),
            has_connected: AtomicBool::new(false),
            patience: Patience::new(),
            opened: AtomicU64::new(0),
        }
    }

    /// How long scripts may wait for locked gaps.
    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Where the database is, for messages.
    pub(crate) fn display(&self) -> &str {
        &self.display
    }

    /// A connection for a call that does `work` for at most so long.
    pub(crate) async fn lend(self: &Arc<Self>, work: Duration) -> Result<Lease<D>, Error> {
        let asked = Instant::now();
        let Some(admitted) = self.bulkhead.admit(asked + LEND).await else {
            let (most, display) = (self.bulkhead.most(), &self.display);
            let busy = format!(
                "all {most} connections to {display} are busy; try again, or set more by connections in the URL"
            );
            return Err(Error::new(Kind::Unavailable, busy));
        };
        let connection = match self.idle.take().await {
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
            is_interruptible: true,
            _admitted: admitted,
        })
    }

    /// The connection outside those for calls. A new one if there is none, or if another call uses it.
    pub(super) async fn spare(self: Arc<Self>) -> Result<Spare<D>, Error> {
        let connection = match self.idle.take_spare().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Spare::new(self.idle.clone(), connection))
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
            most: self.bulkhead.most(),
            busy: self.bulkhead.taken(),
            idle: self.idle.count(),
            opened: self.opened.load(Relaxed),
            queued: self.bulkhead.queued(),
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
    /// Whether its scripts are interrupted when they wait for a locked gap.
    is_interruptible: bool,
    _admitted: OwnedSemaphorePermit,
}

impl<D: Driver> Lease<D> {
    /// Sets the time that is left for the call to `work`.
    pub(crate) fn extend(&mut self, work: Duration) {
        self.deadline = Instant::now() + work;
    }

    /// Lets scripts wait for locked gaps until the server itself ends that.
    pub(crate) fn wait_for_gaps(&mut self) {
        self.is_interruptible = false;
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
        let at_most = match self.is_interruptible && script.may_meet_gaps() {
            true => self.pool.patience.get(),
            false => None,
        };
        let interruption = at_most.and_then(|at_most| {
            let interruption = connection.interruption()?;
            Some((at_most, interruption.clone()))
        });
        let run = connection.run(script, self.deadline);
        let run = run.instrument(span::<D>(context));
        let answers = match interruption {
            Some((at_most, interruption)) => {
                let spare = || Arc::clone(&self.pool).spare();
                briefly(run, script, at_most, interruption, spare).await
            }
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

    /// Interrupts what the session executes by `script`.
    #[cfg(test)]
    pub(crate) fn interrupt_by(&mut self, script: Script) {
        self.connection.as_mut().unwrap().interrupt_by(script);
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
                    self.pool.idle.drop_all();
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
            self.pool.idle.drop_all();
        }
        error
    }
}

impl<D: Driver> Drop for Lease<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.clean) {
            self.pool.idle.keep(connection);
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

#[cfg(test)]
mod tests {
    use super::*;

    impl<D: Driver> Lease<D> {
        /// Sets the session as on a cluster node.
        pub(crate) async fn guard(&mut self) {
            self.connection.as_mut().unwrap().guard().await.unwrap();
        }
    }
}
