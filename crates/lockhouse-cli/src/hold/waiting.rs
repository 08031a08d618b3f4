//! Waits for a grant until a signal asks to end.

use std::pin::pin;
use std::time::Duration;

use lockhouse::{Ask, Code, Error, Lockhouse};
use tokio::time::timeout;

use super::signals::Signals;
use crate::failure::Failure;

/// How long leaving the line takes at most when the command ends.
const LEFT_WITHIN: Duration = Duration::from_secs(1);

/// Signals within this time after the first count as the same signal.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// A waiting ask that a signal may cancel.
pub(crate) struct Waiter<'a> {
    pub(crate) lockhouse: &'a Lockhouse,
    pub(crate) ask: &'a Ask,
    /// Whether the id was generated for this ask.
    pub(crate) fresh_id: bool,
    /// Whether the owner is this process, so that no other process can have sent the same ask.
    pub(crate) own_owner: bool,
}

impl Waiter<'_> {
    /// The result of `acquiring`, or [`Failure::Interrupted`] if a signal asks to end before; then
    /// nothing stays held. After an error, a request with a generated id does not stay held either,
    /// since nobody else knows the id.
    pub(crate) async fn until_granted<T>(
        &self,
        acquiring: impl Future<Output = Result<T, Error>>,
        signals: &mut Signals,
    ) -> Result<T, Failure> {
        let mut is_lost = false;
        let acquiring = async {
            let granted = acquiring.await;
            is_lost = granted.as_ref().is_err_and(Error::maybe_applied) && self.fresh_id;
            Ok(granted?)
        };
        let granted = or_signal(acquiring, signals).await;
        if is_lost || matches!(granted, Err(Failure::Interrupted(_))) {
            // Signals often come in twos, as SIGTERM with SIGHUP. A later one ends this too.
            let mut giving_up = pin!(self.give_up());
            if timeout(ONE_SIGNAL, giving_up.as_mut()).await.is_err() {
                while signals.ended().await.is_some() {}
                let given_up = async {
                    giving_up.await;
                    Ok(())
                };
                or_signal(given_up, signals).await?;
            }
        }
        if granted.is_err() {
            let left = timeout(LEFT_WITHIN, self.lockhouse.clone().close());
            let _ = left.await;
        }
        granted
    }

    /// The dropped call may still be under way and be granted.
    async fn give_up(&self) {
        if !self.fresh_id && !self.own_owner {
            // The hold may belong to another process with the same ask. If it is ours, a retry
            // finds it.
            return;
        }
        if self.fresh_id {
            // The ask may not have arrived yet. Acquiring and releasing the id uses it up, so that
            // the late ask cannot be granted.
            let again = self.lockhouse.acquire(self.ask.clone(), Duration::ZERO);
            let _ = again.await;
        }
        let external_id = &self.ask.external_id;
        match self.lockhouse.release(external_id).await {
            Err(error) if error.code() != Code::UnknownRequest => {
                tracing::warn!(%external_id, %error, "the permits may be held: the release failed");
            }
            _ => {}
        }
    }
}

/// The result of `future`, or [`Failure::Interrupted`] if a signal asks to end before.
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
