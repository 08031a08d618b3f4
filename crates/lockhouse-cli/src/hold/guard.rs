//! The guard of a process group; see [`group`](super::group).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::{Pid, getpgrp, getpid, tcgetpgrp};

use super::tree::Tree;
use crate::exit::Exit;

/// The name of this program as a guard. It is no verb, since users do not type it.
pub(super) const NAME: &str = "lockhouse-guard";

/// The order that sends a guard away.
pub(super) const LEAVE: &str = "leave";

/// Tells a guard that its tree has been asked to end already.
pub(super) const ASKED: &str = "asked";

/// A guard that wakes up this late was stopped.
const STOPPED_FOR: Duration = Duration::from_millis(50);

/// How long it then reads the orders that came meanwhile.
const READS_WITHIN: Duration = Duration::from_millis(20);

/// Another Ctrl-C within this time is a second one, and not a first one again.
const AGAIN_WITHIN: Duration = Duration::from_secs(5);

/// The orders that a guard starts with.
#[derive(Debug)]
pub(crate) struct Duty {
    grace: Duration,
    run: Pid,
    mark: String,
}

/// The messages that a guard gets later.
enum Word {
    KillAt(Instant),
    /// `run` has sent SIGTERM.
    Asked,
    /// The command has ended.
    Leave,
    /// `run` is gone.
    Alone,
    /// The group was interrupted a second time.
    InterruptedAgain,
}

/// The duty of a guard, if `args` are those of one.
pub(crate) fn duty(args: impl IntoIterator<Item = OsString>) -> Option<Duty> {
    let mut args = args.into_iter();
    args.next().filter(|name| name == NAME)?;
    let mut next = || args.next()?.into_string().ok();
    Some(Duty {
        grace: Duration::from_millis(next()?.parse().ok()?),
        run: Pid::from_raw(next()?.parse().ok()?),
        mark: next()?,
    })
}

/// Guards this process's group, and the processes that left it. Each line on stdin says in how many
/// milliseconds to kill them, or that nothing is left to guard. The end of stdin means that `run`
/// has ended. Before that time, and when `run` ends, the processes get some grace to end by
/// themselves, but no longer than they had. A second Ctrl-C soon after the first kills at once.
/// Once the guard has begun to kill, it goes on until no process is left.
pub(crate) fn guard(duty: &Duty) -> Exit {
    let group = getpgrp();
    if group != getpid() || SigSet::all().thread_block().is_err() {
        // This is no guarded group: a user has called the program by hand.
        return Exit::USAGE;
    }
    let tree = Tree::new(duty.run, group, &duty.mark);
    let (sender, words) = mpsc::channel();
    let leaving = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let (sender, leaving) = (sender.clone(), Arc::clone(&leaving));
        move || listen_to_run(&sender, &leaving)
    });
    thread::spawn(move || listen_to_keys(&sender, &leaving));
    let ask = || {
        // SIGCONT lets stopped processes handle the signal.
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            let _ = killpg(group, signal);
            tree.signal_outside(signal);
        }
    };
    let (mut kill_at, mut asked) = (None, false);
    loop {
        let left = || kill_at.map_or(Duration::MAX, left);
        // If `run` has not sent SIGTERM yet, it is sent within the grace before the time to kill.
        let rest = if asked {
            Duration::ZERO
        } else {
            duty.grace / 2
        };
        let rest = left().saturating_sub(rest);
        let due = Instant::now().checked_add(rest);
        let mut word = words.recv_timeout(rest);
        if word.is_err() && due.is_some_and(|due| due.elapsed() > STOPPED_FOR) {
            // The guard itself was stopped, and has yet to read the messages from meanwhile.
            word = words.recv_timeout(READS_WITHIN);
        }
        match word {
            Ok(Word::KillAt(at)) => {
                kill_at = Some(at);
                // If the hold goes on after all, SIGTERM is sent again at its later end.
                asked &= at <= Instant::now() + duty.grace;
            }
            Ok(Word::Asked) => asked = true,
            Ok(Word::Leave) => return Exit::OK,
            Ok(Word::Alone) => {
                ask();
                let soon = Instant::now() + duty.grace.min(left());
                while tree.is_alive() && Instant::now() < soon {
                    thread::sleep(Duration::from_millis(10));
                }
                break;
            }
            Err(RecvTimeoutError::Timeout) if !asked => {
                ask();
                asked = true;
            }
            Ok(Word::InterruptedAgain)
            | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    tree.kill();
    // This process is in the group too.
    let _ = killpg(group, Signal::SIGKILL);
    Exit::OK
}

fn listen_to_run(to: &Sender<Word>, leaving: &AtomicBool) {
    // The receiver lives as long as the process.
    for line in io::stdin().lines().map_while(Result::ok) {
        let ms = || line.parse().ok().map(Duration::from_millis);
        let word = match &*line {
            LEAVE => {
                // Sent through the thread that listens for Ctrl-C, so that an earlier Ctrl-C is
                // handled first.
                leaving.store(true, Ordering::SeqCst);
                let _ = kill(getpid(), Signal::SIGUSR1);
                None
            }
            ASKED => Some(Word::Asked),
            _ => ms().map(|ms| Word::KillAt(Instant::now() + ms)),
        };
        if let Some(word) = word {
            let _ = to.send(word);
        }
    }
    let _ = to.send(Word::Alone);
}

/// Listens for Ctrl-C, though signals are blocked: the terminal or `run` sends it to the whole
/// group.
fn listen_to_keys(to: &Sender<Word>, leaving: &AtomicBool) {
    // Of two pending signals, the kernel delivers the lower number first.
    let mut signals = SigSet::from(Signal::SIGINT);
    signals.add(Signal::SIGUSR1);
    let mut so_far = Interrupts::default();
    while let Ok(signal) = signals.wait() {
        if signal == Signal::SIGUSR1 {
            if leaving.load(Ordering::SeqCst) {
                let _ = to.send(Word::Leave);
            }
            continue;
        }
        if reads_keys_itself() {
            continue;
        }
        if so_far.is_second(Instant::now()) {
            let _ = to.send(Word::InterruptedAgain);
        }
    }
}

/// When the last Ctrl-C came.
#[derive(Default)]
struct Interrupts(Option<Instant>);

impl Interrupts {
    /// Records a Ctrl-C at `now`. Returns whether it is a second one.
    fn is_second(&mut self, now: Instant) -> bool {
        let last = self.0.replace(now);
        last.is_some_and(|last| now.duration_since(last) < AGAIN_WITHIN)
    }
}

/// Whether the group has the terminal in raw mode, as an editor or a shell at its prompt does. Then
/// Ctrl-C is an ordinary key.
fn reads_keys_itself() -> bool {
    let Ok(tty) = File::open("/dev/tty") else {
        return false;
    };
    let by_line =
        |tty| tcgetattr(tty).is_ok_and(|set| set.local_flags.contains(LocalFlags::ICANON));
    tcgetpgrp(&tty) == Ok(getpgrp()) && !by_line(&tty)
}

fn left(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ctrl_c_long_after_another_is_a_first_one() {
        let mut interrupts = Interrupts::default();
        let begun = Instant::now();
        let at = [0, 6, 12, 16].map(|secs| begun + Duration::from_secs(secs));
        let second = at.map(|at| interrupts.is_second(at));
        assert_eq!(second, [false, false, false, true]);
    }
}
