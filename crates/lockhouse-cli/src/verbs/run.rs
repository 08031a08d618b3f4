//! `lockhouse run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockhouse::{
    Ask, Code, EndReason, Lockhouse, Lost, Owner, Permit, Released, Request, RequestBuilder,
    Session,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::process::Command;

use crate::complaint::complain;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;
use crate::hold::{self, ENDING, Ended, Hold, Signals, Waiter, or_signal};
use crate::target::Target;
use crate::want::{Wanted, patience};
use crate::{notice, who};

/// The pause before a session is tried to begin again.
const RETRIED_AFTER: Duration = Duration::from_millis(500);

/// How long releasing the permits may take.
const RELEASED_WITHIN: Duration = Duration::from_secs(10);

/// Hold permits while a command runs
///
/// Waits for the permits, runs the command, renews the permits every third of the TTL, releases them when the
/// command ends, and exits as the command did. It prints nothing on stdout. On a terminal it says on stderr what
/// it waits for.
///
/// The command gets LOCKHOUSE_URL, a server's LOCKHOUSE_TOKEN, LOCKHOUSE_EXTERNAL_ID,
/// LOCKHOUSE_FENCES (the fence on each semaphore, as a JSON object),
/// LOCKHOUSE_SLOTS (the slots on each slotted semaphore, as a JSON object of lists), LOCKHOUSE_OWNER and, with one
/// semaphore, LOCKHOUSE_FENCE and LOCKHOUSE_SLOT (several slots with commas between them). Signals
/// are passed on to it; a second Ctrl-C within
/// 5 s kills it and everything that it started. If the hold is lost, all of that gets SIGTERM and then SIGKILL
/// before anybody else can be granted the permits. The same happens if this process is killed, except
/// to what left the command's process group, as daemons do. The hold ends when
/// the command ends, even if it left something running.
///
/// Without --owner the owner is generated: user, host, pid and command, as `holders` shows them. If arguments are
/// secret, give an --owner. The generated owner has a session for as long as the command runs. Permits that the
/// command acquires with --owner "$LOCKHOUSE_OWNER" and without --ttl need no renewal: they are held until the
/// command ends, and if this machine dies, for the TTL.
///
/// With the same --id and --owner, two runs at once are one request: both run their commands under one permit.
/// Give each run a separate id, or leave --owner out: then the second run is refused.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: the command's own; 128+n if signal n ended it; 126 and 127 if it could not be run;
64 usage, 69 store unavailable, 75 no permit in time, 76 hold lost, 1 refused otherwise.

Examples:
  lockhouse run -s backup-slots -- restic backup /home
  lockhouse run -s backup-slots -s network=2 --wait 10m -- sh -c 'echo $LOCKHOUSE_FENCES'
  lockhouse run -s deploy --wait 0s -- ./deploy.sh || echo 'somebody else deploys'
  lockhouse run -s gpu -- sh -c 'CUDA_VISIBLE_DEVICES=$LOCKHOUSE_SLOT ./train'
  lockhouse run -s nightly --on-busy skip -- ./report.sh
  lockhouse run -s gpu -- sh -c 'lockhouse acquire -s network --owner \"$LOCKHOUSE_OWNER\"; ./train'")]
pub(crate) struct Run {
    #[command(flatten)]
    wanted: Wanted,
    /// How long to wait for room at most: 30s, 5m, 1h30m or forever; by default forever, or 0s with --on-busy skip
    #[arg(long, value_name = "DURATION", value_parser = patience)]
    wait: Option<Duration>,
    /// The action if there was no room within the wait: fail with exit code 75, or skip the command, say so on
    /// stderr and exit with 0, as suits cron. With -o json, stderr then has the problem document with `skipped` true
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    on_busy: OnBusy,
    /// How long the permits stay held if this machine dies: 30s, 5m, 1h30m
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30s",
        value_parser = humantime::parse_duration
    )]
    ttl: Duration,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The action when there was no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnBusy {
    Fail,
    Skip,
}

impl Run {
    pub(super) async fn perform(mut self, global: &Global) -> Result<Exit, Failure> {
        let handed_on = ENDING.into_iter().chain([Signal::SIGUSR1, Signal::SIGUSR2]);
        let mut signals = Signals::listen(handed_on)?;
        let own_owner = self.wanted.owner.is_none();
        let command = &self.command;
        let owner = self.wanted.owner.get_or_insert_with(|| who::runs(command));
        let owner = owner.clone();
        let ask = self.wanted.ask(Some(self.ttl))?;

        let target = global.target()?;
        let connecting = target.connect_within(self.wait());
        let lockhouse = or_signal(connecting, &mut signals).await?;
        let waiter = Waiter {
            lockhouse: &lockhouse,
            ask: &ask,
            fresh_id: self.wanted.id.is_none(),
            own_owner,
        };
        let acquiring = self.request(&lockhouse, &ask).acquire();
        let acquiring = notice::while_waiting(acquiring, &lockhouse, &ask, global.output);
        let permit = match waiter.until_granted(acquiring, &mut signals).await {
            Err(Failure::Lockhouse(busy))
                if self.on_busy == OnBusy::Skip && busy.code() == Code::Exhausted =>
            {
                Failure::Lockhouse(busy).report_skip(global.output);
                return Ok(Exit::OK);
            }
            granted => granted?,
        };
        let mut hold = Hold::new(permit);
        if own_owner {
            // Only now, since a refused run needs no session.
            let session = begin_session(&lockhouse, &owner, self.ttl, hold.permit());
            match or_signal(session, &mut signals).await {
                Ok(session) => hold.keep(session),
                Err(failure) => return self.finish(hold, Err(failure)).await,
            }
        }
        let child = self.child(hold.permit(), &owner, &target);
        let ended = hold::run(child, &hold, self.ttl, &mut signals).await;
        self.finish(hold, ended).await
    }

    fn wait(&self) -> Duration {
        let unless_said = match self.on_busy {
            OnBusy::Fail => Duration::MAX,
            OnBusy::Skip => Duration::ZERO,
        };
        self.wait.unwrap_or(unless_said)
    }

    fn request(&self, lockhouse: &Lockhouse, ask: &Ask) -> RequestBuilder {
        let mut request = lockhouse
            .request_with_id(&ask.external_id)
            .ttl(self.ttl)
            .wait(self.wait())
            .priority(ask.priority.value());
        for (semaphore, count) in ask.permits() {
            request = request.permits(semaphore.as_str(), count.value());
        }
        match &ask.owner {
            Some(owner) => request.owner(owner.as_str()),
            None => request,
        }
    }

    fn child(&self, permit: &Permit, owner: &str, target: &Target) -> Command {
        let fences: serde_json::Map<_, _> = permit
            .fences()
            .map(|(semaphore, fence)| (semaphore.to_owned(), fence.into()))
            .collect();
        let held = &permit.request().permits;
        let slots = held.iter().filter_map(|held| {
            let slots: Vec<u32> = held.slots.as_ref()?.iter().collect();
            Some((held.semaphore.to_string(), slots.into()))
        });
        let slots: serde_json::Map<_, _> = slots.collect();
        // At least one: clap requires it.
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .envs(target.environment())
            .env("LOCKHOUSE_EXTERNAL_ID", permit.external_id().as_str())
            .env("LOCKHOUSE_OWNER", owner)
            .env("LOCKHOUSE_FENCES", Value::from(fences).to_string())
            .env("LOCKHOUSE_SLOTS", Value::from(slots).to_string())
            // A run inside another must not inherit the outer one's variables.
            .env_remove("LOCKHOUSE_FENCE")
            .env_remove("LOCKHOUSE_SLOT");
        if let [only] = &held[..] {
            command.env("LOCKHOUSE_FENCE", only.fence.to_string());
            if let Some(slots) = &only.slots {
                let slots: Vec<_> = slots.iter().map(|slot| slot.to_string()).collect();
                command.env("LOCKHOUSE_SLOT", slots.join(","));
            }
        }
        command
    }

    /// Releases the permits and everything else that the owner holds, and returns the exit code.
    async fn finish(&self, hold: Hold, ended: Result<Ended, Failure>) -> Result<Exit, Failure> {
        let id = hold.permit().external_id().to_string();
        // After a lost hold there is little left to release.
        let within = match &ended {
            Ok(Ended::Lost(_) | Ended::NeverBegan(_)) => (self.ttl / 10).min(RELEASED_WITHIN),
            _ => RELEASED_WITHIN,
        };
        let own_owner = hold.own_owner();
        let released = hold.end(within).await;
        match ended? {
            Ended::Lost(why) => Err(lost(&id, why, "the command was stopped")),
            Ended::NeverBegan(why) => Err(lost(&id, why, "the command was not started")),
            Ended::Command(status) => {
                if let Some(why) = ended_before(&id, released, own_owner.as_ref()) {
                    return Err(lost(&id, why, "the command had ended by itself"));
                }
                Ok(Exit::of_command(status))
            }
        }
    }
}

/// Begins a session for `owner`. While the store or the server is not available, it retries for as
/// long as `permit` is held.
async fn begin_session(
    lockhouse: &Lockhouse,
    owner: &str,
    ttl: Duration,
    permit: &Permit,
) -> Result<Session, Failure> {
    loop {
        match lockhouse.session(owner, ttl).await {
            Err(error) if error.is_transient() && !permit.is_lost() => {
                tokio::time::sleep(RETRIED_AFTER).await;
            }
            begun => return Ok(begun?),
        }
    }
}

/// Whether the hold had ended before it was released. A hold that cannot be released now ends with
/// its TTL, which does not make the command's work invalid.
fn ended_before(
    id: &str,
    released: Option<Result<Released, lockhouse::Error>>,
    own_owner: Option<&Owner>,
) -> Option<Lost> {
    let problem = match released {
        Some(Ok(released)) if released.now => return None,
        // A proxy repeated this release, whose first answer was lost.
        Some(Ok(released)) if is_released_by(&released.request, own_owner) => return None,
        Some(Ok(released)) => return released.request.end_reason().map(Lost::Ended),
        Some(Err(error)) if error.code() == Code::UnknownRequest => return Some(Lost::Unknown),
        Some(Err(error)) => error.to_string(),
        None => "the store did not answer in time".into(),
    };
    complain(&format!(
        "lockhouse: request \"{id}\" could not be released, and ends with its TTL: {problem}"
    ));
    None
}

fn is_released_by(request: &Request, owner: Option<&Owner>) -> bool {
    let is_released = request.end_reason() == Some(EndReason::Released);
    is_released && owner.is_some() && request.ended_by.as_ref() == owner
}

fn lost(id: &str, why: Lost, then: &str) -> Failure {
    Failure::with_exit(
        Exit::LOST,
        format!("the hold of request \"{id}\" was lost: {why}; {then}"),
    )
}
