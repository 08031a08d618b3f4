//! The connection outside those for calls, which may all be lent to calls that wait for locks.

use tokio::time::Instant;

use super::connection::{Answers, Connection, Failed};
use super::driver::Driver;
use super::idle::Idle;
use super::script::Script;

/// The spare connection of a pool, until it is dropped. Then the pool keeps it for a while.
pub(super) struct Spare<D: Driver> {
    idle: Idle<D>,
    /// `None` while it runs a script, and after it turned out to be broken.
    connection: Option<Connection<D>>,
}

impl<D: Driver> Spare<D> {
    pub(super) fn new(idle: Idle<D>, connection: Connection<D>) -> Self {
        Self {
            idle,
            connection: Some(connection),
        }
    }

    /// Runs `script`, which opens no transaction. `None` if the connection turned out to be broken before.
    pub(super) async fn run(
        &mut self,
        script: &Script,
        deadline: Instant,
    ) -> Option<Result<Answers<D>, Failed>> {
        let mut connection = self.connection.take()?;
        let answers = connection.run(script, deadline).await;
        let is_broken = |failed: &Failed| !failed.trouble.spares_connection::<D>();
        if !answers.as_ref().is_err_and(is_broken) {
            self.connection = Some(connection);
        }
        Some(answers)
    }
}

impl<D: Driver> Drop for Spare<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.keep_spare(connection);
        }
    }
}
