//! The process group of a command, and the guard that leads it.
//!
//! The command runs in a process group of its own, so that all of its tree can be signalled. The
//! group's first member and leader is a guard: this program once more, deaf to all signals, which
//! has orders to kill the group at a certain time. `run` moves that time on as the hold is renewed;
//! if `run` is killed or stopped, however hard, the guard is still there, and the tree does not
//! outlive the hold. That it leads the group also means that the group's number can't come to mean
//! another's while it lives.
//!
//! The kernel's parent-death signal would do less: it reaches the command but not what the command
//! started, and says nothing when `run` is merely stopped.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout, timeout_at};

use super::guard;

/// A process group under guard.
pub(super) struct Group {
    guard: Child,
    id: Pid,
}

impl Group {
    /// A group with nobody but its guard in it. If this process dies, the guard gives the group
    /// `grace` between SIGTERM and SIGKILL.
    pub(super) fn open(grace: Duration) -> io::Result<Self> {
        let mut command = Command::new(this_program()?);
        command
            .arg0(guard::NAME)
            .arg(grace.as_millis().to_string())
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
        Ok(Self { guard, id })
    }

    /// Starts `program` in the group.
    pub(super) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(self.id.as_raw()).spawn()
    }

    /// Tells the guard when to kill the group unless told otherwise before.
    pub(super) async fn kill_at(&mut self, at: Instant) {
        let Some(orders) = &mut self.guard.stdin else {
            return;
        };
        let left = at.saturating_duration_since(Instant::now());
        let order = format!("{}\n", left.as_millis());
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

    /// Sends `signal` to all in the group. The guard doesn't mind.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only if nobody is left.
        let _ = killpg(self.id, signal);
    }

    /// Stops all that is in the group: asks with SIGTERM, and at `kill_at` doesn't ask.
    pub(super) async fn stop(self, child: &mut Child, kill_at: Instant) {
        self.signal(Signal::SIGTERM);
        let _ = timeout_at(kill_at.into(), child.wait()).await;
        let id = self.id;
        self.dismiss().await;
        // The command itself may have ended, and left others behind.
        while Instant::now() < kill_at && killpg(id, None).is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
        let _ = killpg(id, Signal::SIGKILL);
        let _ = child.wait().await;
    }

    /// Sends the guard away, and leaves alone who else is still in the group.
    pub(super) async fn dismiss(mut self) {
        // First the guard, then its orders: it takes their end for the end of this process.
        let orders = self.guard.stdin.take();
        let _ = self.guard.kill().await;
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
