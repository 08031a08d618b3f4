//! Runs a command for as long as its permits are held.
//!
//! The hold ends when the command ends, whatever else it left running. If the hold is lost first,
//! the whole process [`group`] of the command is stopped before the permits can be granted to
//! another caller. The [permit](Permit) counts as lost a tenth of its TTL before the store could
//! end it. Then the group gets SIGTERM, and SIGKILL after half of that margin. The [`tree`] finds
//! processes that leave the group (`setsid`, the jobs of an interactive shell), where the system
//! allows it.

mod group;
mod guard;
mod signals;
mod terminal;
mod tree;
mod waiting;

use std::future::{pending, ready};
use std::io::ErrorKind;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use lockhouse::{Error, Lost, Owner, Permit, Released, Session};
use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval, timeout_at};

use crate::exit::Exit;
use crate::failure::Failure;
use group::Group;
use terminal::Terminal;

pub(crate) use guard::{duty as guard_duty, guard};
pub(crate) use signals::{ENDING, Signals, without_signals};
pub(crate) use waiting::{Waiter, or_signal};

/// The longest time between SIGTERM and SIGKILL once the hold is lost.
const MOST_GRACE: Duration = Duration::from_secs(10);

/// How a command under a hold ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself.
    Command(ExitStatus),
    /// It was stopped, or ended by itself after the hold was lost.
    Lost(Lost),
    /// It was not started, since its hold was lost before.
    NeverBegan(Lost),
}

/// The hold of a command: its permit, and perhaps a session of its owner with the same TTL. Both
/// must be held.
#[derive(Debug)]
pub(crate) struct Hold {
    permit: Permit,
    session: Option<Session>,
}

impl Hold {
    pub(crate) fn new(permit: Permit) -> Self {
        Self {
            permit,
            session: None,
        }
    }

    pub(crate) fn keep(&mut self, session: Session) {
        self.session = Some(session);
    }

    pub(crate) fn permit(&self) -> &Permit {
        &self.permit
    }

    /// The owner that nobody else has: the one with the session.
    pub(crate) fn own_owner(&self) -> Option<Owner> {
        self.session.as_ref().map(|session| session.owner().clone())
    }

    /// Resolves when one of the two is lost.
    async fn lost(&self) -> Lost {
        let session = async {
            match &self.session {
                Some(session) => session.lost().await,
                None => pending().await,
            }
        };
        tokio::select! {
            lost = self.permit.lost() => lost,
            lost = session => lost,
        }
    }

    /// Whether one of them is lost, and why.
    async fn is_lost(&self) -> Option<Lost> {
        tokio::select! {
            biased;
            lost = self.lost() => Some(lost),
            () = ready(()) => None,
        }
    }

    /// Until when both are certainly held.
    fn held_until(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::held_until);
        self.permit.held_until().into_iter().chain(session).min()
    }

    /// Releases the permits, and then everything else that the owner holds, both together `within`
    /// a time. Returns the result of the first, if known by then.
    pub(crate) async fn end(self, within: Duration) -> Option<Result<Released, Error>> {
        let until = Instant::now() + within;
        let released = timeout_at(until.into(), self.permit.release()).await;
        if let Some(session) = self.session {
            let owner = session.owner().clone();
            let goodbye = timeout_at(until.into(), session.goodbye()).await;
            match goodbye {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%owner, %error, "the session could not be ended, and expires");
                }
                Err(_) => tracing::warn!(%owner, "the session was not ended in time, and expires"),
            }
        }
        released.ok()
    }
}

/// Runs `command` under `hold`, which has the TTL `ttl`, and passes `signals` on to it. The command
/// is not started if a signal to end has come already, or the hold is lost.
pub(crate) async fn run(
    command: Command,
    hold: &Hold,
    ttl: Duration,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let grace = (ttl / 20).min(MOST_GRACE);
    let kill_at = || hold.held_until().map(|until| until + grace);

    // All steps that may fail come before the command is started.
    let mut children = signals::stream(Signal::SIGCHLD)?;
    let mut group = Group::open(grace)
        .map_err(|error| Failure::other(format!("cannot start a guard: {error}")))?;
    if let Some(at) = kill_at() {
        group.kill_at(at).await;
    }
    let mut terminal = Terminal::open(group.id())?;
    // The last check before there is a command to pass signals on to.
    if let Some(signal) = signals.ended().await {
        group.dismiss().await;
        return Err(Failure::Interrupted(signal));
    }
    if let Some(lost) = hold.is_lost().await {
        group.dismiss().await;
        return Ok(Ended::NeverBegan(lost));
    }
    let program = command.as_std().get_program().to_owned();
    let mut child = group
        .spawn(command)
        .map_err(|error| cannot_run(&program.to_string_lossy(), &error))?;
    let leader = group::pid(&child);
    if let (Some(terminal), Some(leader)) = (&mut terminal, leader) {
        terminal.begin(leader);
    }
    // Often enough that the guard hears of a late renewal well before it would act.
    let mut renewed = interval((ttl / 40).clamp(Duration::from_millis(1), Duration::from_secs(5)));
    renewed.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            lost = hold.lost() => {
                let soon = Instant::now() + grace;
                let at = kill_at().map_or(soon, |at| at.min(soon));
                group.stop(&mut child, at, signals).await;
                return Ok(Ended::Lost(lost));
            }
            ended = child.wait() => {
                group.dismiss().await;
                let status = ended
                    .map_err(|error| Failure::other(format!("cannot wait for it: {error}")))?;
                // Perhaps by the guard, while this process was stopped.
                let too_late = hold.held_until().is_some_and(|until| until <= Instant::now());
                if too_late {
                    return Ok(Ended::Lost(Lost::NotRenewed));
                }
                return Ok(Ended::Command(status));
            }
            signal = signals.next() => group.hand_on(signal, &child),
            () = tend(&mut terminal) => {}
            _ = children.recv() => group.bury(&child),
            _ = renewed.tick() => if let Some(at) = kill_at() {
                group.kill_at(at).await;
            },
        }
    }
}

async fn tend(terminal: &mut Option<Terminal>) {
    match terminal {
        Some(terminal) => terminal.tend().await,
        None => pending().await,
    }
}

fn cannot_run(program: &str, error: &std::io::Error) -> Failure {
    let (exit, problem) = match error.kind() {
        ErrorKind::NotFound => (Exit::NOT_FOUND, "not found".into()),
        _ => (Exit::NOT_EXECUTABLE, error.to_string()),
    };
    Failure::with_exit(exit, format!("cannot run {program}: {problem}"))
}
