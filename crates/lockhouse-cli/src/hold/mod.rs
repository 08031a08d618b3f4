//! Running a command for as long as its permits are held.
//!
//! The hold ends when the command ends, whatever else it left running. If the hold is lost first,
//! all of the command's process [`group`] is stopped before anybody else can be granted it: at the
//! last, the [permit](Permit) counts as lost a tenth of its time to live before the store could end
//! it, SIGTERM comes then, and SIGKILL after half of that margin. Processes that leave the group
//! (`setsid`, the jobs of an interactive shell) are found by the [`tree`], where the system tells.

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

use lockhouse::{Error, Lost, Permit, Released, Session};
use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval, timeout_at};

use crate::exit::Exit;
use crate::failure::Failure;
use group::Group;
use terminal::Terminal;

pub(crate) use guard::{duty as guard_duty, guard};
pub(crate) use signals::{ENDING, Signals};
pub(crate) use waiting::{Waiter, or_signal};

/// The longest that a command is given between SIGTERM and SIGKILL once its hold is lost.
const MOST_GRACE: Duration = Duration::from_secs(10);

/// How a command that ran under a hold came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself.
    Command(ExitStatus),
    /// It was stopped, or ended by itself when it was too late.
    Lost(Lost),
    /// It was not started, as its hold was lost before.
    NeverBegan(Lost),
}

/// What a command runs under: its permit, and perhaps a session of its owner, with the same time to
/// live. Both must be held.
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

    /// Whether one of them is lost by now, and why.
    async fn is_lost(&self) -> Option<Lost> {
        tokio::select! {
            biased;
            lost = self.lost() => Some(lost),
            () = ready(()) => None,
        }
    }

    /// Until when both are surely held.
    fn held_until(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::held_until);
        self.permit.held_until().into_iter().chain(session).min()
    }

    /// Gives the permits back, and then all else that the owner holds, `within` a time for both.
    /// What became of the first, as far as is known by then, whatever became of the rest.
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

/// Runs `command` under `hold`, which has the time to live `ttl`, and hands `signals` on to it.
/// If one that asks to end is there already, or the hold is lost, the command is not started.
pub(crate) async fn run(
    command: Command,
    hold: &Hold,
    ttl: Duration,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let grace = (ttl / 20).min(MOST_GRACE);
    let kill_at = || hold.held_until().map(|until| until + grace);

    // Whatever may fail comes before there is a command.
    let mut children = signals::stream(Signal::SIGCHLD)?;
    let mut group = Group::open(grace)
        .map_err(|error| Failure::other(format!("cannot start a guard: {error}")))?;
    if let Some(at) = kill_at() {
        group.kill_at(at).await;
    }
    let mut terminal = Terminal::open(group.id())?;
    // The last look before there is a command to hand signals on to.
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
