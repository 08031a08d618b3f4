//! Sharing the terminal with a command that runs in a process group of its own.
//!
//! Only one group at a time, the foreground group, may read a terminal and gets its Ctrl-C. Leaving
//! the command in our own group would spare us all this, but then its tree could not be signalled
//! without hitting whoever else is in there: the rest of a pipeline, or the script that we are a
//! line of. So the command has its own group, and is lent the terminal:
//!
//! - at once, if our job has it and both our stdin and our stdout are it;
//! - else when the command reaches for it and is stopped by the kernel for that. In
//!   `lockhouse run -- make | less` it is `less` that needs the keys.
//!
//! Ctrl-Z then stops only the command's group. We notice, take the terminal back, and stop our own
//! job the same way, so that the shell sees it; when the shell continues us we lend the terminal
//! again and continue the command. Where the terminal is not lent Ctrl-Z comes to us, and we stop the
//! command's group first. The hold is not renewed meanwhile, so a job that stays stopped for longer
//! than its time to live is killed by its guard.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, raise};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use tokio::signal::unix;
use tokio::time::{Instant, sleep_until};

use super::{signals, tree};
use crate::failure::Failure;

/// How long after stopping our own job we are surely stopped, if we can be: a job that no shell
/// looks after is not stopped by the kernel, and then the command goes on.
const STOPPED_BY: Duration = Duration::from_millis(100);

/// The terminal, seen from a job that has a command in a group of its own.
pub(super) struct Terminal {
    tty: File,
    /// Our own group.
    us: Pid,
    /// The command's group.
    group: Pid,
    /// The command, once it runs.
    leader: Option<Pid>,
    /// Whether the command has had the terminal.
    lent: bool,
    children: unix::Signal,
    continued: unix::Signal,
    /// Ctrl-Z, unless we were started to ignore it; elsewhere than on Linux nobody tells whether there
    /// is a shell to stop for.
    stops: Option<unix::Signal>,
    /// Whether the command was stopped by us, and not we because of it.
    stopping: bool,
    resume_at: Option<Instant>,
}

impl Terminal {
    /// The terminal of this process, if it has one, for a command that will run in `group`.
    pub(super) fn open(group: Pid) -> Result<Option<Self>, Failure> {
        let Ok(tty) = File::open("/dev/tty") else {
            return Ok(None);
        };
        Ok(Some(Self {
            tty,
            us: getpgrp(),
            group,
            leader: None,
            lent: false,
            children: signals::stream(Signal::SIGCHLD)?,
            continued: signals::stream(Signal::SIGCONT)?,
            stops: match cfg!(target_os = "linux") && !signals::is_ignored(Signal::SIGTSTP) {
                true => Some(signals::stream(Signal::SIGTSTP)?),
                false => None,
            },
            stopping: false,
            resume_at: None,
        }))
    }

    /// The command runs as `leader`: lends it the terminal, if that is due.
    ///
    /// A Ctrl-C before this comes to us, one after it to the command: none is lost in between.
    pub(super) fn begin(&mut self, leader: Pid) {
        self.leader = Some(leader);
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            self.lend();
        }
    }

    /// Waits for something to change, and sees to it.
    ///
    /// Cancel safe.
    pub(super) async fn tend(&mut self) {
        let resume_at = self.resume_at;
        let resume = async {
            match resume_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let stopped = async {
            match &mut self.stops {
                Some(stops) => stops.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = stopped => self.stop(),
            _ = self.continued.recv() => self.resume(),
            () = resume => self.resume(),
            _ = self.children.recv() => self.look_at_command(),
        }
    }

    fn look_at_command(&mut self) {
        match self.leader.and_then(stopped) {
            Some(Signal::SIGTTIN | Signal::SIGTTOU) if self.lend() => self.go_on(),
            // Somebody stopped it on purpose, and nobody sits before the terminal and waits.
            Some(Signal::SIGSTOP) if !self.lent => {}
            Some(_) if self.stopping => {}
            Some(_) => self.stop_our_job(),
            None => {}
        }
    }

    fn stop_our_job(&mut self) {
        self.take_back();
        self.resume_at = Some(Instant::now() + STOPPED_BY);
        let _ = killpg(self.us, Signal::SIGTSTP);
    }

    /// Stops the command's group, and then this process as the kernel would have.
    fn stop(&mut self) {
        self.stopping = true;
        let _ = killpg(self.group, Signal::SIGTSTP);
        self.resume_at = Some(Instant::now() + STOPPED_BY);
        if tree::has_shell() {
            let _ = raise(Signal::SIGSTOP);
        }
    }

    fn resume(&mut self) {
        self.resume_at = None;
        self.stopping = false;
        if self.lent {
            self.lend();
        }
        self.go_on();
    }

    fn go_on(&self) {
        let _ = killpg(self.group, Signal::SIGCONT);
    }

    /// Makes the command's group the foreground group, if ours is; says whether it is then.
    fn lend(&mut self) -> bool {
        let foreground = self.foreground();
        if foreground == Some(self.us) && self.make_foreground(self.group) {
            self.lent = true;
            return true;
        }
        // It may have been lent just after the command looked.
        foreground == Some(self.group)
    }

    fn take_back(&self) {
        if self.foreground() == Some(self.group) {
            self.make_foreground(self.us);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.tty).ok()
    }

    fn make_foreground(&self, group: Pid) -> bool {
        // From the background this call is answered with SIGTTOU, unless that is blocked.
        let Ok(before) = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK)
        else {
            return false;
        };
        let made = tcsetpgrp(&self.tty, group);
        let restored = before.thread_set_mask();
        made.and(restored).is_ok()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// The signal that stopped the process `pid` since the last call, if one did. Leaves its exit to
/// be waited for.
#[cfg(target_os = "linux")]
fn stopped(pid: Pid) -> Option<Signal> {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
    match waitid(Id::Pid(pid), flags) {
        Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
        _ => None,
    }
}

/// Elsewhere a stopped command is not noticed: Ctrl-Z is then no use.
#[cfg(not(target_os = "linux"))]
fn stopped(_pid: Pid) -> Option<Signal> {
    None
}
