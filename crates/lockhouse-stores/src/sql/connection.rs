//! One connection: sets its session, and runs scripts on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use lockhouse_core::store::{Error, Kind};
use sqlx::{ConnectOptions as _, Connection as _, Either};
use tokio::time::{Instant, timeout_at};

use super::driver::{ConnectionOf, Driver, ReadOnly, RowOf};
use super::error::Trouble;
use super::host::Host;
use super::script::Script;

/// How long a ping may take.
const PING: Duration = Duration::from_secs(1);

/// The rows that each statement of a script returned, in order.
pub(crate) type Answers<D> = Vec<Vec<RowOf<D>>>;

/// A script that failed, and how many of its statements succeeded before.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) finished: usize,
    pub(crate) trouble: Trouble,
}

/// A connection whose session is set.
pub(crate) struct Connection<D: Driver> {
    driver: ConnectionOf<D>,
    longest_script: usize,
    /// Whether scripts are sent [`guarded`](Script::guarded), since autocommit is off.
    is_guarded: bool,
    /// How the server may lose answered commits, if it can.
    risk: Option<String>,
    /// Why the session may not write, if it may not.
    read_only: Option<ReadOnly>,
    /// How to interrupt what the session executes, if the server takes that.
    interruption: Option<Interruption>,
}

/// How to interrupt what a session executes.
#[derive(Clone)]
pub(super) struct Interruption {
    /// Another session executes this.
    pub(super) script: Arc<Script>,
    /// How many statements of the session's script have answered.
    answered: Arc<AtomicUsize>,
}

impl Interruption {
    /// How many statements of the session's script have answered. The next one is executed now.
    pub(super) fn answered(&self) -> usize {
        self.answered.load(Relaxed)
    }
}

/// On a cluster node: if the node aborts a transaction, later statements commit only with a COMMIT.
const NOT_BY_ITSELF: &str = "SET autocommit=0";

/// More bytes than guarding adds to a script.
const GUARD: usize = 64;

impl<D: Driver> Connection<D> {
    /// Connects and sets the session.
    pub(crate) async fn open(host: &Host<D>) -> Result<Self, Error> {
        let context = format!("connecting to {}", host.display);
        let driver = host.driver.connect().await;
        let driver = driver.map_err(|error| Trouble::Driver(error).before_commit::<D>(&context))?;
        let mut connection = Self {
            driver,
            longest_script: usize::MAX,
            is_guarded: false,
            risk: None,
            read_only: None,
            interruption: None,
        };
        let answers = connection.answers(D::SESSION).await;
        let failed = |failed: Failed| failed.trouble.before_commit::<D>(&context);
        let session = answers.map_err(failed)?.pop().unwrap_or_default();
        connection.longest_script = D::longest_script(&session)?;
        connection.risk = D::risk(&session)?;
        connection.read_only = D::read_only(&session)?;
        connection.interruption = D::interrupt(&session)?.map(|script| Interruption {
            script: Arc::new(script),
            answered: Arc::default(),
        });
        let mut settled = None;
        if let Some(settings) = D::settings(&session)? {
            settled = match connection.answers(&settings).await.map_err(failed) {
                Ok(mut answers) => answers.pop(),
                Err(error) if error.kind() == Kind::Configuration => None,
                Err(error) => return Err(error),
            };
            connection.guard().await.map_err(failed)?;
        }
        let unfit = |error: Error| Error::new(error.kind(), format!("{context}: {error}"));
        D::check(&session, settled.as_deref()).map_err(unfit)?;
        Ok(connection)
    }

    /// Turns autocommit off.
    pub(super) async fn guard(&mut self) -> Result<(), Failed> {
        self.answers(NOT_BY_ITSELF).await?;
        self.is_guarded = true;
        self.longest_script -= GUARD;
        Ok(())
    }

    /// Whether every statement is in a transaction, since autocommit is off.
    pub(super) fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// How the server may lose answered commits, if it can.
    pub(super) fn risk(&self) -> Option<&str> {
        self.risk.as_deref()
    }

    /// Why the session may not write, if it may not.
    pub(super) fn read_only(&self) -> Option<ReadOnly> {
        self.read_only
    }

    /// How to interrupt what the session executes, if the server takes that.
    pub(super) fn interruption(&self) -> Option<&Interruption> {
        self.interruption.as_ref()
    }

    #[cfg(test)]
    pub(super) fn interrupt_by(&mut self, script: Script) {
        self.interruption.as_mut().unwrap().script = Arc::new(script);
    }

    /// Closes the connection at the server, within the timeout of a ping.
    pub(super) async fn close(self) {
        // If closing fails, the drop closes the connection too.
        let _ = timeout_at(Instant::now() + PING, self.driver.close()).await;
    }

    /// Whether the server still answers on this connection.
    pub(crate) async fn is_alive(&mut self) -> bool {
        let deadline = Instant::now() + PING;
        matches!(timeout_at(deadline, self.driver.ping()).await, Ok(Ok(())))
    }

    /// Whether the server takes a script as long as this.
    pub(crate) fn takes(&self, script: &Script) -> bool {
        script.text().len() <= self.longest_script
    }

    /// Sends `script` in one packet, and reads all its answers until `deadline`.
    pub(crate) async fn run(
        &mut self,
        script: &Script,
        deadline: Instant,
    ) -> Result<Answers<D>, Failed> {
        let started = Instant::now();
        let guarded = self.is_guarded.then(|| script.guarded());
        let text = guarded
            .as_ref()
            .map_or(script.text(), |guarded| &guarded.text);
        let answers = timeout_at(deadline, self.answers(text)).await;
        let answers = answers.unwrap_or_else(|_| {
            Err(Failed {
                finished: 0,
                trouble: Trouble::Late(started.elapsed()),
            })
        });
        let added = guarded.map_or_else(Vec::new, |guarded| guarded.added);
        let answers = without::<D>(answers, &added)?;
        if answers.len() == script.statements() {
            return Ok(answers);
        }
        let problem = format!(
            "{} answers to {} statements",
            answers.len(),
            script.statements()
        );
        Err(Failed {
            finished: answers.len(),
            trouble: Trouble::Driver(sqlx::Error::Protocol(problem)),
        })
    }

    async fn answers(&mut self, sql: &str) -> Result<Answers<D>, Failed> {
        let mut answers = Answers::<D>::new();
        let mut rows = Vec::new();
        let mut stream = D::send(&mut self.driver, sql);
        loop {
            if let Some(interruption) = &self.interruption {
                interruption.answered.store(answers.len(), Relaxed);
            }
            match stream.try_next().await {
                Ok(Some(Either::Right(row))) => rows.push(row),
                Ok(Some(Either::Left(_end))) => answers.push(std::mem::take(&mut rows)),
                Ok(None) => return Ok(answers),
                Err(error) => {
                    return Err(Failed {
                        finished: answers.len(),
                        trouble: Trouble::Driver(error),
                    });
                }
            }
        }
    }
}

/// The answers of the script's own statements, or the number of them that succeeded.
fn without<D: Driver>(
    answers: Result<Answers<D>, Failed>,
    added: &[usize],
) -> Result<Answers<D>, Failed> {
    match answers {
        Ok(answers) => {
            let answers = answers.into_iter().enumerate();
            let own = answers.filter(|(at, _)| !added.contains(at));
            Ok(own.map(|(_, answer)| answer).collect())
        }
        Err(mut failed) => {
            let finished = failed.finished;
            failed.finished -= added.iter().filter(|at| **at < finished).count();
            Err(failed)
        }
    }
}
