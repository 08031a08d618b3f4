//! Waiting for a grant until a signal says to stop.

use std::time::Duration;

use lockhouse::{Ask, Error, Lockhouse};

use super::Signals;
use crate::failure::Failure;

/// Somebody who asks, and may have to give up.
pub(crate) struct Waiter<'a> {
    pub(crate) lockhouse: &'a Lockhouse,
    pub(crate) ask: &'a Ask,
    /// Whether nobody else can have asked the same: what is held under its id is then ours.
    pub(crate) alone: bool,
}

impl Waiter<'_> {
    /// What `acquiring` comes to, or [`Failure::Interrupted`] if a signal asks to end before; then
    /// nothing stays held.
    pub(crate) async fn until_granted<T>(
        &self,
        acquiring: impl Future<Output = Result<T, Error>>,
        signals: &mut Signals,
    ) -> Result<T, Failure> {
        let granted = or_signal(async { Ok(acquiring.await?) }, signals).await;
        if let Err(Failure::Interrupted(_)) = granted {
            // A second signal ends this too.
            let given_up = async {
                self.give_up().await;
                Ok(())
            };
            or_signal(given_up, signals).await?;
        }
        granted
    }

    /// The call that was dropped may have been under way. Asking the same once more comes after
    /// it, as both are for the same semaphores: if it is granted now, or was, it is released, and
    /// its id is then used up; if there is no room, nobody waits for any.
    async fn give_up(&self) {
        let again = self.lockhouse.acquire(self.ask.clone(), Duration::ZERO);
        let Ok((request, granted_now)) = again.await else {
            return;
        };
        if !granted_now && !self.alone {
            // It may be another process's, which asked the same under the same id.
            return;
        }
        if let Err(error) = self.lockhouse.release(&request.external_id).await {
            let external_id = request.external_id;
            tracing::warn!(%external_id, %error, "what was granted could not be given back");
        }
    }
}

/// What `future` comes to, or [`Failure::Interrupted`] if a signal asks to end before.
pub(crate) async fn or_signal<T>(
    future: impl Future<Output = Result<T, Failure>>,
    signals: &mut Signals,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        signal = signals.end() => Err(Failure::Interrupted(signal)),
        done = future => done,
    }
}
