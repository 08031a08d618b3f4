//! The callers of a run.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{
    Ask, Count, EndReason, Error, ExternalId, Owner, Permit, Priority, Request, SemaphoreName, Ttl,
    Upkeep,
};
use tokio::time::{sleep, timeout};

use super::broken::Break;
use super::call::{Call, check_permit, may_be_told};
use super::plan::{Acquire, Ending, Hold, KEYS, NAMES, SetTemplate, Then};
use super::servers::Servers;
use super::violation::ensure;
use super::world::World;

/// The time limit of every call, beside its wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time limit of calls that need several calls to the store.
const LONG: Duration = Duration::from_secs(60);

/// How long after the end of its wait a call may be answered.
const WAIT_OVER: Duration = Duration::from_millis(50);

/// The time limit of a call with this wait.
fn patience(world: &World, wait: Duration) -> Duration {
    match (world.is_quiet, wait.is_zero()) {
        (false, _) => wait + PATIENCE,
        (true, true) => Duration::from_secs(1),
        (true, false) => wait + WAIT_OVER,
    }
}

/// The answer, which must come in time.
async fn answer<T>(
    world: &World,
    what: &str,
    within: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Option<Result<T, Error>> {
    let is_forgotten = world.breaks == Some(Break::ForgetsCall) && fastrand::u32(0..16) == 0;
    let call = async {
        if is_forgotten {
            std::future::pending::<()>().await;
        }
        call.await
    };
    match timeout(within, call).await {
        Ok(answer) => {
            world.log(|| match &answer {
                Ok(_) => format!("{what}: done"),
                Err(error) => format!("{what}: {error}"),
            });
            Some(answer)
        }
        Err(_) => {
            let text = || format!("{what} has no answer after {within:?}");
            world.found(ensure(false, "answers", text));
            None
        }
    }
}

/// The answer, unless the caller goes away before.
async fn patient<T>(gives_up_ms: Option<u64>, call: impl Future<Output = Option<T>>) -> Option<T> {
    match gives_up_ms {
        Some(ms) => timeout(Duration::from_millis(ms), call).await.ok()?,
        None => call.await,
    }
}

pub(super) fn name(number: usize) -> SemaphoreName {
    SemaphoreName::parse(NAMES[number]).expect("it is a name")
}

pub(super) fn id(text: &str) -> ExternalId {
    ExternalId::parse(text).expect("it is an id")
}

pub(super) fn owner(number: usize) -> Owner {
    Owner::parse(format!("o{number}")).expect("it is an owner")
}

fn permits(permits: &[(usize, u32)]) -> impl Iterator<Item = (SemaphoreName, Count)> {
    let count = |count: u32| Count::new(count).expect("it is small");
    permits
        .iter()
        .map(move |(of, some)| (name(*of), count(*some)))
}

fn ask(acquire: &Acquire) -> Ask {
    let mut ask = Ask::new(id(&acquire.id), permits(&acquire.permits)).expect("it is an ask");
    ask.owner = acquire.owner.map(owner);
    ask.ttl = acquire
        .ttl_ms
        .map(|ms| Ttl::from_ms(ms).expect("it is short"));
    ask.priority = Priority::new(acquire.priority).expect("it is small");
    ask
}

pub(super) async fn acquire(servers: Arc<Servers>, server: usize, what: Acquire) {
    let ask = ask(&what);
    let mut at = server;
    for _ in 0..=what.insists {
        match ask_once(&servers, at, &what, &ask).await {
            Some(Ok(_)) => return go_on(&servers, at, &what).await,
            Some(Err(Error::Store(_))) => at += 1,
            _ => return,
        }
        sleep(Duration::from_millis(fastrand::u64(0..50))).await;
    }
}

async fn ask_once(
    servers: &Servers,
    at: usize,
    what: &Acquire,
    ask: &Ask,
) -> Option<Result<Request, Error>> {
    let world = &servers.world;
    let (its_name, lockhouse) = servers.at(at);
    let wait = Duration::from_millis(what.wait_ms);
    let within = patience(world, wait);
    let said = format!("{its_name}: acquire {}", what.id);
    let call = Call::for_ask(world, &its_name, ask, what.wait_ms > 0);
    let asked = lockhouse.acquire(ask.clone(), wait);
    let answer = patient(what.gives_up_ms, answer(world, &said, within, asked)).await?;
    call.granted(ask, &answer);
    Some(answer.map(|(request, _)| request))
}

async fn go_on(servers: &Servers, at: usize, what: &Acquire) {
    match what.then {
        Then::Dies => {}
        Then::Releases { after_ms } => {
            sleep(Duration::from_millis(after_ms)).await;
            release(servers, at, &what.id).await;
        }
        Then::Renews { every_ms, times } => {
            for _ in 0..times {
                sleep(Duration::from_millis(every_ms)).await;
                renew(servers, at, &what.id, None).await;
            }
            release(servers, at, &what.id).await;
        }
    }
}

pub(super) async fn renew(servers: &Servers, at: usize, text: &str, ttl_ms: Option<u64>) {
    let world = &servers.world;
    let (its_name, lockhouse) = servers.at(at);
    let within = patience(world, Duration::ZERO);
    let ttl = ttl_ms.map(Duration::from_millis);
    let call = Call::on(world, &id(text));
    let said = format!("{its_name}: renew {text}");
    if let Some(answer) = answer(world, &said, within, lockhouse.renew(text, ttl)).await {
        call.renewed(&answer);
    }
}

pub(super) async fn release(servers: &Servers, at: usize, text: &str) {
    let world = &servers.world;
    let (its_name, lockhouse) = servers.at(at);
    let within = patience(world, Duration::ZERO);
    let call = Call::on(world, &id(text));
    let said = format!("{its_name}: release {text}");
    if let Some(answer) = answer(world, &said, within, lockhouse.release(text)).await {
        call.ended(EndReason::Released, &answer);
    }
}

pub(super) async fn force(servers: &Servers, at: usize, text: &str) {
    let world = &servers.world;
    let (its_name, lockhouse) = servers.at(at);
    let within = patience(world, Duration::ZERO);
    let call = Call::on(world, &id(text));
    let said = format!("{its_name}: force {text}");
    let forced = lockhouse.force_release(text, Some("somebody"));
    if let Some(answer) = answer(world, &said, within, forced).await {
        call.ended(EndReason::Forced, &answer);
    }
}

/// A call of which this checks only the time and the kind of the answer. The book checks its content.
async fn said<T>(
    world: &World,
    what: &str,
    within: Duration,
    call: impl Future<Output = Result<T, Error>>,
) {
    if let Some(Err(error)) = answer(world, what, within, call).await {
        world.found(may_be_told(world, &error));
    }
}

pub(super) async fn define(
    servers: &Servers,
    at: usize,
    of: usize,
    capacity: u32,
    slots: Option<bool>,
) {
    let (its_name, lockhouse) = servers.at(at);
    let within = patience(&servers.world, Duration::ZERO);
    let what = format!("{its_name}: define {}", NAMES[of]);
    let define = lockhouse.define(NAMES[of], capacity);
    let define = match slots {
        None => define,
        Some(true) => define.slots(),
        Some(false) => define.without_slots(),
    };
    said(&servers.world, &what, within, define.into_future()).await;
}

pub(super) async fn set_template(servers: &Servers, at: usize, template: SetTemplate) {
    let (its_name, lockhouse) = servers.at(at);
    let SetTemplate { capacity, idle_ms } = template;
    let set = lockhouse.template(KEYS, capacity).idle_ms(idle_ms);
    let what = format!("{its_name}: {template}");
    said(&servers.world, &what, LONG, set.send()).await;
}

pub(super) async fn delete_template(servers: &Servers, at: usize) {
    let (its_name, lockhouse) = servers.at(at);
    let what = format!("{its_name}: delete template {KEYS}");
    let delete = lockhouse.delete_template(KEYS);
    said(&servers.world, &what, LONG, delete).await;
}

pub(super) async fn delete(servers: &Servers, at: usize, of: usize) {
    let (its_name, lockhouse) = servers.at(at);
    let within = patience(&servers.world, Duration::ZERO);
    let what = format!("{its_name}: delete {}", NAMES[of]);
    said(&servers.world, &what, within, lockhouse.delete(NAMES[of])).await;
}

pub(super) async fn heartbeat(servers: &Servers, at: usize, who: usize, ttl_ms: u64) {
    let (its_name, lockhouse) = servers.at(at);
    let within = patience(&servers.world, Duration::ZERO);
    let what = format!("{its_name}: heartbeat o{who}");
    let beat = lockhouse.heartbeat(owner(who), Duration::from_millis(ttl_ms));
    said(&servers.world, &what, within, beat).await;
}

pub(super) async fn goodbye(servers: &Servers, at: usize, who: usize) {
    let (its_name, lockhouse) = servers.at(at);
    let what = format!("{its_name}: goodbye o{who}");
    said(&servers.world, &what, LONG, lockhouse.goodbye(owner(who))).await;
}

pub(super) async fn sweep(servers: &Servers, at: usize) {
    let (its_name, lockhouse) = servers.at(at);
    let what = format!("{its_name}: sweep");
    said(
        &servers.world,
        &what,
        LONG,
        lockhouse.sweep(&Upkeep::default()),
    )
    .await;
}

/// Holds a permit that renews itself.
pub(super) async fn hold(servers: Arc<Servers>, server: usize, number: usize, what: Hold) {
    let world = &servers.world;
    let jumps = world.notes().jumps;
    let Some(permit) = held(&servers, server, number, &what).await else {
        return;
    };
    let permit = Arc::new(permit);
    world.keep(&permit, jumps);
    let _ = timeout(Duration::from_millis(what.for_ms), permit.lost()).await;
    let permit = Arc::into_inner(permit).expect("nobody else keeps it");
    match what.ends {
        Ending::Drop => drop(permit),
        Ending::Forget => drop(permit.forget()),
        Ending::Release => {
            let id = permit.external_id().clone();
            let call = Call::on(world, &id);
            let within = patience(world, Duration::ZERO);
            let said = format!("release {id}");
            if let Some(answer) = answer(world, &said, within, permit.release()).await {
                call.ended(EndReason::Released, &answer);
            }
        }
    }
}

async fn held(servers: &Servers, server: usize, number: usize, what: &Hold) -> Option<Permit> {
    let world = &servers.world;
    let (its_name, lockhouse) = servers.at(server);
    let wait = Duration::from_millis(what.wait_ms);
    let mut request = lockhouse
        .request()
        .ttl(Duration::from_millis(what.ttl_ms))
        .wait(wait);
    for (of, count) in &what.permits {
        request = request.permits(NAMES[*of], *count);
    }
    // A second call may renew the permit before the caller gets it.
    let within = patience(world, wait) + patience(world, Duration::ZERO);
    let said = format!("{its_name}: hold #{number}");
    // Its place in line is noted under an id that no request has.
    let stands_in = Ask::new(id(&format!("hold{number}")), permits(&what.permits));
    let stands_in = stands_in.expect("it is an ask");
    let jumps = world.notes().jumps;
    let call = Call::for_ask(world, &its_name, &stands_in, what.wait_ms > 0);
    let answer = patient(
        what.gives_up_ms,
        answer(world, &said, within, request.acquire()),
    )
    .await?;
    call.held(&answer);
    let permit = answer.ok()?;
    world.found(check_permit(world, &permit, jumps));
    Some(permit)
}
