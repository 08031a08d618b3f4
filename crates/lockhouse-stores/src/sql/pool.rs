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

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::{Answers, Connection, Failed};
use super::dialect::Driver;
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

/// Lends connections to one database.
pub(crate) struct Pool<D: Driver> {
    location: Location<D>,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Idle<D>>>,
}

struct Idle<D: Driver> {
    connection: Connection<D>,
    since: Instant,
}

impl<D: Driver> Pool<D> {
    /// A pool that has not connected yet.
    pub(crate) fn new(location: Location<D>) -> Self {
        Self {
            places: Arc::new(Semaphore::new(location.connections)),
            location,
            idle: Mutex::default(),
        }
    }

    /// Where the database is, for messages.
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
            None => self.connect().await?,
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
            idle.retain(|idle| now - idle.since < D::IDLE);
            idle.pop()?
        };
        if last.since.elapsed() < FRESH || last.connection.is_alive().await {
            return Some(last.connection);
        }
        self.drop_idle();
        None
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
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle<D>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
            let too_large = format!(
                "{context}: {} bytes of SQL are more than the server takes at once ({})",
                script.text().len(),
                D::LONGEST_SCRIPT_IS
            );
            return Err(Error::new(Kind::Rejected, too_large));
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
            let since = Instant::now();
            self.pool.idle().push(Idle { connection, since });
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
