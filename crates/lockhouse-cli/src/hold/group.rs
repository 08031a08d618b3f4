//! The process group of a command, and the guard that leads it.
//!
//! The command runs in a process group of its own, so that all who are in it can be signalled; who
//! left it is found by the [`tree`](super::tree). The group's first member and leader is a guard:
//! this program once more, deaf to all signals, which has orders to kill the tree at a certain time.
//! `run` moves that time on as the hold is renewed; if `run` is killed or stopped, however hard, the
//! guard is still there, and the tree does not outlive the hold. That it leads the group also means
//! that the group's number can't come to mean another's while it lives.
//!
//! The kernel's parent-death signal would do less: it reaches the command but not what the command
//! started, and says nothing when `run` is merely stopped.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg};
use nix::unistd::{Pid, getpid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::guard;
use super::signals::Signals;
use super::tree::{self, Tree};

/// The longest that a guard may take to go, or to kill the tree before it does.
const LONGEST_KILL: Duration = Duration::from_secs(5);

/// A process group under guard.
pub(super) struct Group {
    guard: Child,
    id: Pid,
    mark: String,
    tree: Tree,
}

impl Group {
    /// A group with nobody but its guard in it. If this process dies, the guard gives the group
    /// `grace` between SIGTERM and SIGKILL.
    pub(super) fn open(grace: Duration) -> io::Result<Self> {
        let mark = uuid::Uuid::now_v7().to_string();
        let mut command = Command::new(this_program()?);
        command
            .arg0(guard::NAME)
            .args([grace.as_millis().to_string(), getpid().to_string()])
            .arg(&mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        // The guard is born deaf: what is signalled to the group from now on must not end it.
        let hearing = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let guard = command.spawn();
        hearing.thread_set_mask()?;
        let guard = guard?;
        let id = pid(&guard).ok_or_else(|| io::Error::other("the guard ended at once"))?;
        tree::adopt();
        let tree = Tree::new(getpid(), id, &mark);
        Ok(Self {
            guard,
            id,
            mark,
            tree,
        })
    }

    /// Starts `program` in the group.
    pub(super) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        tree::mark(&mut command, &self.mark);
        command.process_group(self.id.as_raw()).spawn()
    }

    /// Tells the guard when to kill the group unless told otherwise before.
    pub(super) async fn kill_at(&mut self, at: Instant) {
        let left = at.saturating_duration_since(Instant::now());
        self.order(&left.as_millis().to_string()).await;
    }

    async fn order(&mut self, order: &str) {
        let Some(orders) = &mut self.guard.stdin else {
            return;
        };
        let order = format!("{order}\n");
        // A guard that does not read has been stopped or killed by somebody, and is not missed
        // while this process lives.
        let _ = timeout(
            Duration::from_millis(100),
            orders.write_all(order.as_bytes()),
        )
        .await;
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Sends `signal` to all in the group. The guard ignores it. Stopped processes go on, if it asks them to end:
    /// otherwise they would get it only after somebody else had them go on.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only if nobody is left.
        let _ = killpg(self.id, signal);
        if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
            let _ = killpg(self.id, Signal::SIGCONT);
        }
    }

    /// Has those go who ended and were left to this process, which has `child` besides.
    pub(super) fn bury(&self, child: &Child) {
        tree::bury_all_but(&[pid(child), pid(&self.guard)]);
    }

    /// Hands `signal` on to `child`, or to all in the group.
    pub(super) fn hand_on(&self, signal: Signal, child: &Child) {
        if !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
            return self.signal(signal);
        }
        // A message to the program; what it started may not expect one.
        if let Some(child) = pid(child) {
            let _ = kill(child, signal);
        }
    }

    /// Stops all of the tree: asks with SIGTERM, and at `kill_at` doesn't ask. Until then it hands
    /// `signals` on, and the guard stays: to hear of a second Ctrl-C, and in case this process is
    /// killed or stopped meanwhile.
    pub(super) async fn stop(mut self, child: &mut Child, kill_at: Instant, signals: &mut Signals) {
        self.order(guard::ASKED).await;
        self.kill_at(kill_at).await;
        // Who is stopped goes on, so as to hear it.
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            self.signal(signal);
            self.tree.signal_outside(signal);
        }
        // The command itself may have ended, and left others behind.
        while Instant::now() < kill_at && self.tree.is_alive() {
            tokio::select! {
                signal = signals.next() => self.hand_on(signal, child),
                () = sleep(Duration::from_millis(10)) => self.bury(child),
            }
        }
        self.tree.kill();
        // The guard is in the group too. As long as it is not waited for, the number is the group's.
        let _ = killpg(self.id, Signal::SIGKILL);
        let _ = child.wait().await;
        let _ = self.guard.wait().await;
    }

    /// Sends the guard away, and leaves alone who else is still in the group; unless it kills them
    /// already, as after a second Ctrl-C, and then that comes to its end first.
    pub(super) async fn dismiss(mut self) {
        // Whoever stopped the group stopped its guard.
        let _ = kill(self.id, Signal::SIGCONT);
        self.order(guard::LEAVE).await;
        // It takes the end of its orders for the end of this process, so they stay open till it went.
        let orders = self.guard.stdin.take();
        if timeout(LONGEST_KILL, self.guard.wait()).await.is_err() {
            let _ = self.guard.kill().await;
        }
        drop(orders);
    }
}

pub(super) fn pid(child: &Child) -> Option<Pid> {
    let id = i32::try_from(child.id()?).ok()?;
    Some(Pid::from_raw(id))
}

/// This program, also if its file has been replaced meanwhile.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from(OsString::from("/proc/self/exe"));
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}
