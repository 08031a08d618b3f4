//! Signals that this process gets.
//!
//! The registry of signal handlers loses a signal that comes after the kernel has installed a handler and before the
//! registry knows what to do. On a busy machine that may be milliseconds. So the signal is held back meanwhile, in the one
//! thread that gets signals then.

use std::future::{poll_fn, ready};
use std::task::Poll;
use std::{fs, io};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use tokio::signal::unix;

use crate::failure::Failure;

/// Signals that ask a process to end. `timeout`, terminals and service managers send them.
pub(crate) const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Catches signals for as long as the process lives, and keeps them until they are read.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Catches `signals`, except those that this process was started to ignore, as under `nohup`.
    pub(crate) fn listen(signals: impl IntoIterator<Item = Signal>) -> Result<Self, Failure> {
        let heard = signals
            .into_iter()
            .filter(|signal| !is_ignored(*signal))
            .map(|signal| Ok((signal, stream(signal)?)))
            .collect::<Result<_, Failure>>()?;
        Ok(Self(heard))
    }

    /// The next signal.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that asks to end. Skips others.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ENDING.contains(&signal) {
                return signal;
            }
        }
    }

    /// A signal to end that has come before now, if any.
    pub(crate) async fn ended(&mut self) -> Option<Signal> {
        // Lets the runtime deliver signals that were already caught.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            signal = self.end() => Some(signal),
            () = ready(()) => None,
        }
    }
}

pub(super) fn stream(signal: Signal) -> Result<unix::Signal, Failure> {
    let kind = unix::SignalKind::from_raw(signal as i32);
    let caught = holding_back(SigSet::from(signal), || unix::signal(kind));
    caught
        .and_then(|stream| stream)
        .map_err(|error| Failure::other(format!("cannot listen to {signal}: {error}")))
}

/// The threads and processes that `start` starts get no signals, except for faults of their own, which Rust reports.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let mut signals = SigSet::all();
    signals.remove(Signal::SIGSEGV);
    signals.remove(Signal::SIGBUS);
    holding_back(signals, start)
}

/// Signals that come while `act` acts come after it.
fn holding_back<T>(signals: SigSet, act: impl FnOnce() -> T) -> io::Result<T> {
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let done = act();
    before.thread_set_mask()?;
    Ok(done)
}

/// Whether this process was started to ignore `signal`.
pub(super) fn is_ignored(signal: Signal) -> bool {
    ignored() & bit(signal) != 0
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// A bit for each signal that this process ignores, the lowest for signal 1. Only Linux reports
/// this.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn ignored_signals_are_detected() {
        // Rust ignores SIGPIPE from the start.
        assert!(is_ignored(Signal::SIGPIPE));
        assert!(!is_ignored(Signal::SIGTERM));
    }

    #[tokio::test]
    async fn a_signal_that_was_caught_is_seen_at_once() {
        let mut signals = Signals::listen([Signal::SIGTERM]).unwrap();
        assert_eq!(signals.ended().await, None);
        nix::sys::signal::raise(Signal::SIGTERM).unwrap();
        assert_eq!(signals.ended().await, Some(Signal::SIGTERM));
        assert_eq!(signals.ended().await, None);
    }
}
