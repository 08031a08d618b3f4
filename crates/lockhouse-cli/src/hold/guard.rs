//! The guard of a process group; see [`group`](super::group).

use std::ffi::OsString;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{getpgrp, getpid};

use crate::exit::Exit;

/// What this program is called when it is a guard: no verb, as it is nothing to type.
pub(super) const NAME: &str = "lockhouse-guard";

/// The grace to guard with, if `args` are those of a guard.
pub(crate) fn duty(args: impl IntoIterator<Item = OsString>) -> Option<Duration> {
    let mut args = args.into_iter();
    args.next().filter(|name| name == NAME)?;
    let grace_ms = args.next()?.to_str()?.parse().ok()?;
    Some(Duration::from_millis(grace_ms))
}

/// Guards this process's group. Each line on stdin says in how many milliseconds to kill it; the
/// end of stdin is the end of `run`, and the group then gets `grace` to end by itself, but not
/// longer than it had. Ends with the group, or when `run` kills it.
pub(crate) fn guard(grace: Duration) -> Exit {
    let group = getpgrp();
    if group != getpid() || SigSet::all().thread_block().is_err() {
        // Not a group to kill, but somebody's who tries things out.
        return Exit::USAGE;
    }
    let (sender, orders) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if let Ok(ms) = line.parse() {
                // The receiver lives as long as the process.
                let _ = sender.send(Instant::now() + Duration::from_millis(ms));
            }
        }
    });
    let mut kill_at = None;
    loop {
        let left = kill_at.map_or(Duration::MAX, left);
        match orders.recv_timeout(left) {
            Ok(at) => kill_at = Some(at),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => {
                let _ = killpg(group, Signal::SIGTERM);
                thread::sleep(grace.min(left));
                break;
            }
        }
    }
    // This process is in the group too.
    let _ = killpg(group, Signal::SIGKILL);
    Exit::OK
}

fn left(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now())
}
