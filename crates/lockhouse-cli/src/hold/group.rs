//! The process group of a command, and the guard that leads it.
//!
//! The command runs in a separate process group, so that all its processes can be signalled. The
//! [`tree`](super::tree) finds processes that left the group. The leader of the group is a guard:
//! this program again, which ignores all signals and has orders to kill the tree at a certain time.
//! `run` moves that time on as the hold is renewed. If `run` is killed or stopped, the guard is
//! still there, and the tree does not outlive the hold. While the guard leads the group, the kernel
//! cannot give the group's number to another one.
//!
//! The kernel's parent-death signal would do less: it reaches the command but not the processes
//! that the command started, and it is not sent when `run` is only stopped.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::guard;
use super::signals::{Signals, without_signals};
use super::tree::{self, Tree};

/// How long a guard may take at most to exit, including the time to kill the tree.
const LONGEST_KILL: Duration = Duration::from_secs(5);

/// A process group under guard.
pub(super) struct Group {
    guard: Child,
    id: Pid,
    mark: String,
    tree: Tree,
}

impl Group {
    /// Opens a group that contains only its guard. If this process dies, the guard gives the group
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
        // A signal to the group must not end the guard before it blocks them itself.
        let guard = without_signals(|| command.spawn())??;
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
        // A guard that does not read was stopped or killed. This process does not need it while it
        // lives.
        let _ = timeout(
            Duration::from_millis(100),
            orders.write_all(order.as_bytes()),
        )
        .await;
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Sends `signal` to all processes of the group. The guard ignores it. If the signal asks to
    /// end, stopped processes are continued, since they would not handle it before.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only if no process is left.
        let _ = killpg(self.id, signal);
        if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
            let _ = killpg(self.id, Signal::SIGCONT);
        }
    }

    /// Reaps the ended processes that this process has adopted, except `child`.
    pub(super) fn bury(&self, child: &Child) {
        tree::bury_all_but(&[pid(child), pid(&self.guard)]);
    }

    /// Passes `signal` on to `child`, or to all processes of the group.
    pub(super) fn hand_on(&self, signal: Signal, child: &Child) {
        if !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
            return self.signal(signal);
        }
        // Such a signal is a message to the program. The processes that it started may not expect
        // one.
        if let Some(child) = pid(child) {
            let _ = kill(child, signal);
        }
    }

    /// Stops the whole tree: with SIGTERM, and at `kill_at` with SIGKILL. Until then it passes
    /// `signals` on. The guard stays, to notice a second Ctrl-C, and in case this process is killed
    /// or stopped meanwhile.
    pub(super) async fn stop(mut self, child: &mut Child, kill_at: Instant, signals: &mut Signals) {
        self.order(guard::ASKED).await;
        self.kill_at(kill_at).await;
        // SIGCONT lets stopped processes handle the signal.
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            self.signal(signal);
            self.tree.signal_outside(signal);
        }
        // The command itself may have ended and left other processes behind.
        while Instant::now() < kill_at && self.tree.is_alive() {
            tokio::select! {
                signal = signals.next() => self.hand_on(signal, child),
                () = sleep(Duration::from_millis(10)) => self.bury(child),
            }
        }
        self.tree.kill();
        // The guard is in the group too. Until it is reaped, the number belongs to the group.
        let _ = killpg(self.id, Signal::SIGKILL);
        let _ = child.wait().await;
        let _ = self.guard.wait().await;
    }

    /// Dismisses the guard and lets the other processes of the group go on. If the guard is already
    /// killing them, as after a second Ctrl-C, it finishes that first.
    pub(super) async fn dismiss(mut self) {
        // A signal that stopped the group has stopped its guard too.
        let _ = kill(self.id, Signal::SIGCONT);
        self.order(guard::LEAVE).await;
        // The guard takes the end of its stdin for the end of this process, so stdin stays open
        // until the guard has exited.
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

/// The path of this program, even if its file has been replaced meanwhile.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from(OsString::from("/proc/self/exe"));
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}
