//! Notifies systemd when the server is ready, reloads or stops, and that it still runs.
//!
//! Each is a message to the socket in `NOTIFY_SOCKET`. Without the variable nothing is sent. See
//! `sd_notify(3)`.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// The server accepts connections. Until it ends, it sends keep-alives as often as the unit's
/// `WatchdogSec=` requires.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
    if let Some(at_most) = sd_notify::watchdog_enabled() {
        tokio::spawn(keep_telling(at_most / 2));
    }
}

/// The server is about to reload its files. After that it is [`ready`] again.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "systemd was not notified of the reload"),
    }
}

/// The files were reloaded.
pub(crate) fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// The server takes no more calls.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// If the runtime hangs, it sends nothing, and systemd restarts the server.
async fn keep_telling(every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd was not notified of the state of the server");
    }
}
