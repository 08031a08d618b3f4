//! `/healthz`: the process lives. `/readyz`: its store answers too, and how the upkeep goes.
//!
//! `/readyz` takes no token, so the number of its calls must not burden the store. One check is under way at a time, and its
//! result answers all calls within a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use lockhouse::{Code, Lockhouse, UpkeepState};
use lockhouse_wire::Problem;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::failure::Failure;

/// How long a check that has ended answers further calls.
const FRESH: Duration = Duration::from_secs(1);

/// Whether the store answers.
#[derive(Clone, Debug)]
pub(crate) struct Readiness(Arc<Checks>);

#[derive(Debug)]
struct Checks {
    lockhouse: Lockhouse,
    last: Mutex<Option<Check>>,
}

/// The result of a check, and its time.
#[derive(Clone, Debug)]
struct Checked {
    found: Result<(), Problem>,
    at: Instant,
}

/// The result of a check that many calls wait for. `None` while the check is under way.
type Check = watch::Receiver<Option<Checked>>;

impl Readiness {
    pub(crate) fn new(lockhouse: Lockhouse) -> Self {
        Self(Arc::new(Checks {
            lockhouse,
            last: Mutex::default(),
        }))
    }

    async fn check(&self) -> Result<(), Failure> {
        let mut check = self.current();
        let checked = check.wait_for(Option::is_some).await.ok();
        let found = checked.and_then(|checked| Some(checked.as_ref()?.found.clone()));
        let Some(found) = found else {
            // The task that checks ends early only when it panics.
            let problem = Problem::new(Code::Internal, "the check of the store failed");
            return Err(Failure::of(problem));
        };
        found.map_err(Failure::of)
    }

    /// The check that is under way or has just ended, or else a new one.
    fn current(&self) -> Check {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = last.as_ref().filter(|check| match &*check.borrow() {
            Some(checked) => checked.at.elapsed() < FRESH,
            // A check whose task has ended without a result has panicked.
            None => check.has_changed().is_ok(),
        });
        if let Some(check) = usable {
            return check.clone();
        }
        let (report, check) = watch::channel(None);
        let lockhouse = self.0.lockhouse.clone();
        // In a task, so that callers that hang up end no check, and the next caller begins no other.
        tokio::spawn(async move {
            let found = lockhouse.ready().await;
            let found = found.map_err(|error| {
                tracing::warn!(%error, "the server is not ready");
                Problem::from(&error)
            });
            let at = Instant::now();
            // All callers may have hung up.
            let _ = report.send(Some(Checked { found, at }));
        });
        last.insert(check).clone()
    }
}

pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// A server whose upkeep fails is ready nevertheless: calls end the lapsed requests that are in their way.
///
/// Where tokens are asked for, a stranger does not read errors, which may have names of hosts and users.
pub(crate) async fn readyz(
    State(lockhouse): State<Lockhouse>,
    State(readiness): State<Readiness>,
    State(access): State<Arc<Access>>,
) -> Result<String, Failure> {
    let is_ready = readiness.check().await;
    let upkeep = lockhouse.upkeep_state();
    if access.is_open() {
        is_ready?;
        return Ok(format!("ready\nupkeep: {upkeep}\n"));
    }
    is_ready.map_err(|failure| {
        let detail = "the store does not answer as it should; the log of the server says more";
        Failure::new(failure.code(), detail)
    })?;
    match upkeep {
        UpkeepState::Failing(_) => Ok("ready\nupkeep: failing\n".into()),
        upkeep => Ok(format!("ready\nupkeep: {upkeep}\n")),
    }
}
