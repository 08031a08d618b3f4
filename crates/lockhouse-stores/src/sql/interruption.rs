//! Interrupts a script that waits for a locked gap, where the server's own limit of such a wait is too
//! long.
//!
//! Neither MySQL nor MariaDB ends the wait of an INSERT in less than a second, and the transaction
//! keeps other rows locked meanwhile. So another session interrupts it. It looks first whether any
//! session waits for a lock, since a slow server is no reason. If a script was interrupted though no
//! gap was locked, no further one is for a while: its work would be lost again and again.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::Error;
use tokio::time::{Instant, timeout};

use super::connection::{Answers, Connection, Failed, Interruption};
use super::driver::Driver;
use super::hosts::Hosts;
use super::script::Script;

/// How long a script may wait for a locked gap.
const GAP: Duration = Duration::from_millis(300);

/// How long no script is interrupted after an interruption that was of no use.
const PATIENT_FOR: Duration = Duration::from_secs(5);

/// How long the look for lock waits may take, and the same for the interruption; and how long connecting for them may take.
const INTERRUPT: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_secs(3);

/// Until when no script is interrupted.
#[derive(Debug)]
pub(super) struct Patience(Mutex<Instant>);

impl Patience {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    pub(super) fn begin(&self) {
        *self.until() = Instant::now() + PATIENT_FOR;
    }

    pub(super) fn lasts(&self) -> bool {
        Instant::now() < *self.until()
    }

    fn until(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for `run`, which runs `script`, and interrupts it once it has waited for a locked gap for
/// [`GAP`].
pub(super) async fn briefly<D: Driver>(
    run: impl Future<Output = Result<Answers<D>, Failed>>,
    script: &Script,
    interruption: Interruption,
    hosts: &Hosts<D>,
) -> Result<Answers<D>, Failed> {
    let mut run = pin!(run);
    loop {
        if let Ok(answers) = timeout(GAP, &mut run).await {
            return answers;
        }
        if interruption.is_due(script) {
            break;
        }
    }
    let prepared = tokio::select! {
        biased;
        answers = &mut run => return answers,
        prepared = prepare(hosts) => prepared,
    };
    let connection = match prepared {
        Ok(Some(connection)) if interruption.is_due(script) => connection,
        Ok(_) => return run.await,
        Err(error) => {
            tracing::debug!(%error, "a script that waits for a lock is not interrupted");
            return run.await;
        }
    };
    // Both are awaited, so that the interruption does not meet the connection's next script.
    let (answers, interrupted) = tokio::join!(run, interrupt(interruption, connection));
    if let Err(error) = interrupted {
        tracing::debug!(%error, "a script that waits for a lock could not be interrupted");
    }
    answers.map_err(|failed| Failed {
        trouble: failed.trouble.interrupted::<D>(),
        ..failed
    })
}

/// Opens a connection outside the pool, whose connections may all be lent. `None` if no session waits for a lock.
async fn prepare<D: Driver>(hosts: &Hosts<D>) -> Result<Option<Connection<D>>, Error> {
    let failed = |failed: Failed| failed.trouble.before_commit::<D>("looking for lock waits");
    let mut connection = hosts.connect(CONNECT).await?;
    let waits = Script::of(D::LOCK_WAITS);
    let deadline = Instant::now() + INTERRUPT;
    let waits = connection.run(&waits, deadline).await.map_err(failed)?;
    let has_waits = D::has_lock_waits(waits.first().map_or(&[], Vec::as_slice))?;
    if !has_waits {
        connection.close().await;
        return Ok(None);
    }
    Ok(Some(connection))
}

async fn interrupt<D: Driver>(
    interruption: Interruption,
    mut connection: Connection<D>,
) -> Result<(), Error> {
    let failed = |failed: Failed| failed.trouble.before_commit::<D>("interrupting a script");
    let interrupt = Script::of(interruption.statement);
    let deadline = Instant::now() + INTERRUPT;
    connection.run(&interrupt, deadline).await.map_err(failed)?;
    connection.close().await;
    Ok(())
}
