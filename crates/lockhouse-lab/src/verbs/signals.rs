//! The signals that end the program.

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output::{FAILED, Failure};

/// Signals that no longer end the program by themselves.
pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    /// Listens for the signals of Ctrl-C and of `kill`, and for `others`.
    pub(crate) fn listen(others: &[SignalKind]) -> Result<Self, Failure> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let kinds = kinds.iter().chain(others);
        let signals: Result<_, _> = kinds.map(|kind| signal(*kind)).collect();
        signals
            .map(Self)
            .map_err(|error| Failure(FAILED, error.to_string()))
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        let signals = self.0.iter_mut();
        select_all(signals.map(|signal| Box::pin(signal.recv()))).await;
    }
}
