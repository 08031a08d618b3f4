//! Simulation: runs the engine over a store in memory under virtual time. The same seed gives the same run.
//!
//! The plan of a run is drawn from the seed before it begins: several servers on one store, callers of all kinds, and the
//! faults between servers and store. The run is one thread with paused time. All random draws in it (the engine's jitter,
//! the store's delays) use the thread's generator, which the seed sets. So a run can be repeated. A run that fails is
//! repeated with fewer and fewer steps, until every step that is left is needed for the failure.
//!
//! At every commit the simulation compares the store's answers and rows with a book that it keeps (`ledger`). It compares
//! each caller's answer with the same book. It also checks that all calls are answered in time and served in turn, and that
//! nothing stays held at the end.

mod answers;
mod broken;
mod call;
mod callers;
mod draw;
mod keys;
mod last;
mod ledger;
mod plan;
mod pools;
mod servers;
mod shrink;
mod store;
mod turns;
mod violation;
mod world;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};

pub use broken::Break;
pub use plan::Plan;
pub use violation::Violation;

use plan::{Deed, Step};
use servers::Servers;
use world::World;

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// The log of the run, if it was wanted.
    pub log: Vec<String>,
}

/// A run that broke a promise, made short.
#[derive(Debug)]
pub struct Failure {
    plan: Plan,
    violation: Violation,
    log: Vec<String>,
}

impl Failure {
    /// The violation.
    pub fn violation(&self) -> &Violation {
        &self.violation
    }

    /// The steps that the failure needs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The run of `seed`.
pub fn plan(seed: u64) -> Plan {
    draw::plan(seed)
}

/// Runs the seed. If a promise is broken, finds the steps that this takes.
///
/// # Errors
/// The shortest run found that breaks the same promise.
pub fn check(seed: u64, breaks: Option<Break>) -> Result<(), Box<Failure>> {
    check_plan(&plan(seed), breaks)
}

/// The same for a plan.
///
/// # Errors
/// As for [`check`].
pub fn check_plan(plan: &Plan, breaks: Option<Break>) -> Result<(), Box<Failure>> {
    let Some(violation) = run(plan, breaks, false).violation else {
        return Ok(());
    };
    let plan = shrink::shrink(plan, |plan| {
        let found = run(plan, breaks, false).violation;
        found.is_some_and(|found| found.promise == violation.promise)
    });
    let Ran {
        violation: last,
        log,
    } = run(&plan, breaks, true);
    Err(Box::new(Failure {
        violation: last.unwrap_or(violation),
        plan,
        log,
    }))
}

/// Runs `plan` on a store that is broken as `breaks` says. Keeps a log if it `is_logged`.
pub fn run(plan: &Plan, breaks: Option<Break>, is_logged: bool) -> Ran {
    fastrand::seed(plan.seed);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without a driver");
    runtime.block_on(async {
        let world = World::new(plan.is_quiet, breaks, is_logged);
        go_through(plan, &world).await;
        let violation = world.notes().violation.take();
        Ran {
            violation,
            log: world.take_log(),
        }
    })
}

async fn go_through(plan: &Plan, world: &Arc<World>) {
    let servers = Servers::of(plan, world);
    for (number, (capacity, slotted)) in plan.capacities.into_iter().enumerate() {
        callers::define(&servers, 0, number, capacity, Some(slotted)).await;
    }
    if let Some(template) = plan.template {
        callers::set_template(&servers, 0, template).await;
    }
    let watched = Arc::clone(world);
    let watcher = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(50)).await;
            watched.look_at_waiters();
        }
    });
    let began = Instant::now();
    for step in &plan.steps {
        sleep_until(began + Duration::from_millis(step.at_ms)).await;
        if world.has_failed() {
            return;
        }
        world.log(|| step.to_string());
        take(&servers, step.clone());
    }
    last::last(&servers).await;
    watcher.abort();
}

fn take(servers: &Arc<Servers>, step: Step) {
    let Step {
        number,
        server: at,
        deed,
        ..
    } = step;
    let its = Arc::clone(servers);
    match deed {
        Deed::Acquire(what) => servers.call(at, callers::acquire(its, at, what)),
        Deed::Hold(what) => servers.call(at, callers::hold(its, at, number, what)),
        Deed::Renew { id, ttl_ms } => {
            servers.call(
                at,
                async move { callers::renew(&its, at, &id, ttl_ms).await },
            );
        }
        Deed::Release { id } => {
            servers.call(at, async move { callers::release(&its, at, &id).await });
        }
        Deed::Force { id } => servers.call(at, async move { callers::force(&its, at, &id).await }),
        Deed::Define {
            name,
            capacity,
            slots,
        } => {
            servers.call(at, async move {
                callers::define(&its, at, name, capacity, slots).await
            });
        }
        Deed::Template(template) => {
            servers.call(at, async move {
                callers::set_template(&its, at, template).await
            });
        }
        Deed::DeleteTemplate => {
            servers.call(at, async move { callers::delete_template(&its, at).await });
        }
        Deed::Delete { name } => {
            servers.call(at, async move { callers::delete(&its, at, name).await });
        }
        Deed::Heartbeat { owner, ttl_ms } => {
            servers.call(at, async move {
                callers::heartbeat(&its, at, owner, ttl_ms).await
            });
        }
        Deed::Goodbye { owner } => {
            servers.call(at, async move { callers::goodbye(&its, at, owner).await });
        }
        Deed::Sweep => servers.call(at, async move { callers::sweep(&its, at).await }),
        Deed::Kill => servers.kill(at),
        Deed::Fault(fault) => servers.store(at).befall(fault),
        Deed::ReadFault(fault) => servers.store(at).befall_read(fault),
        Deed::Cut { ms, is_silent } => servers.store(at).cut(ms, is_silent),
        Deed::Stop { ms } => servers.store(at).stop(ms),
        Deed::Jump { ms } => servers.world.jump(ms),
    }
}

/// The steps, the broken promise, and the last lines of the log before it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { promise, text } = &self.violation;
        writeln!(f, "{promise} is broken: {text}\n")?;
        write!(f, "{}", self.plan)?;
        let numbers = self.plan.numbers();
        let keep: Vec<_> = numbers.iter().map(usize::to_string).collect();
        writeln!(
            f,
            "\nagain: simulate seed={} keep={}\n",
            self.plan.seed,
            keep.join(",")
        )?;
        let broken = self
            .log
            .iter()
            .position(|line| line.ends_with(text.as_str()));
        let end = broken.map_or(self.log.len(), |at| at + 1);
        for line in &self.log[end.saturating_sub(LINES)..end] {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// How many lines of the log are shown.
const LINES: usize = 40;
