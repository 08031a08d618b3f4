//! The signal that the server is about to stop.

use tokio::sync::watch;

/// Waiting calls also wait for this signal.
#[derive(Clone, Debug)]
pub(crate) struct Stopping {
    stop: watch::Receiver<bool>,
}

impl Stopping {
    /// The signal, and its sender, which sends `true`.
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (sender, stop) = watch::channel(false);
        (sender, Self { stop })
    }

    /// Resolves when the server is about to stop. Without a sender it never is.
    pub(crate) async fn begun(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
