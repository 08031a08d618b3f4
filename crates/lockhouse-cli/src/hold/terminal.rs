//! Shares the terminal with a command that runs in a separate process group.
//!
//! Only one group at a time, the foreground group, may read a terminal and gets its Ctrl-C. Keeping
//! the command in our own group would avoid all this. But then its tree could not be signalled
//! without hitting the other processes of our group: the rest of a pipeline, or the script that
//! runs us. So the command has its own group, and is lent the terminal:
//!
//! - at once, if our job has it and both our stdin and our stdout are it;
//! - else when the command accesses it and the kernel stops the command for that. In `lockhouse run
//!   -- make | less`, `less` needs the keys.
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

/// If we are not stopped this long after stopping our own job, we cannot be: the kernel does not
/// stop a job without a shell. Then the command goes on.
const STOPPED_BY: Duration = Duration::from_millis(100);

/// The terminal of a job whose command is in a separate group.
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
    /// Ctrl-Z, unless we were started to ignore it. Only Linux reports whether there is a shell to
    /// stop for.
    stops: Option<unix::Signal>,
    /// Whether we stopped the command, rather than it stopping us.
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

    /// Records that the command runs as `leader`, and lends it the terminal if that is due.
    ///
    /// A Ctrl-C before this comes to us, a later one to the command. None is lost in between.
    pub(super) fn begin(&mut self, leader: Pid) {
        self.leader = Some(leader);
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            self.lend();
        }
    }

    /// Waits for a change, and handles it.
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
            // Another process stopped it on purpose, and it does not have the terminal.
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

    /// Stops the command's group, and then this process, as the kernel would have.
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

    /// Makes the command's group the foreground group, if ours is. Returns whether it is now.
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
        // From the background this call causes SIGTTOU, unless that is blocked.
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

/// The signal that stopped the process `pid` since the last call, if any. Does not reap the
/// process.
#[cfg(target_os = "linux")]
fn stopped(pid: Pid) -> Option<Signal> {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
    match waitid(Id::Pid(pid), flags) {
        Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
        _ => None,
    }
}

/// Other systems do not report a stopped command, so Ctrl-Z has no effect there.
#[cfg(not(target_os = "linux"))]
fn stopped(_pid: Pid) -> Option<Signal> {
    None
}
