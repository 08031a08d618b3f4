//! The end of a run: no more faults, and time passes. All waiters must then get their permits, and nothing may stay held.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::store::{Maintenance as _, Purge, Store as _};
use lockhouse::{Ask, Count, ExternalId, SemaphoreName, Timestamp, Ttl};
use lockhouse_core::HEARD_FOR;
use tokio::time::{sleep, timeout};

use super::callers::{release, sweep};
use super::plan::NAMES;
use super::servers::Servers;
use super::violation::ensure;

/// A second, and some calls on a store that is a little slow.
const SOON: Duration = Duration::from_millis(1_200);

/// How long an engine may still retry a call that failed before.
const TRIED_AGAIN: Duration = Duration::from_secs(2);

/// Longer than any time to live or wait.
const LONG: Duration = Duration::from_secs(60);

pub(super) async fn last(servers: &Arc<Servers>) {
    let world = &servers.world;
    servers.calm();
    for caller in servers.take_callers() {
        let ended = timeout(2 * LONG, caller).await;
        world.found(ensure(matches!(ended, Ok(Ok(()))), "answers", || {
            format!("a caller came to no end: {ended:?}")
        }));
    }
    for server in 0..servers.len() {
        let (name, lockhouse) = servers.at(server);
        let closed = timeout(Duration::from_secs(11), lockhouse.close()).await;
        world.found(ensure(closed.is_ok(), "answers", || {
            format!("{name} is not closed")
        }));
    }
    world.settled().await;
    if world.notes().set_back > LONG {
        outlive_all(servers).await;
    }
    let its = Arc::clone(servers);
    let ending = tokio::spawn(async move {
        // Repeated, as a retry of a call that was cut off may still be granted.
        loop {
            end_what_nothing_ends(&its).await;
            sleep(Duration::from_millis(50)).await;
        }
    });
    want_everything(servers).await;
    sleep(TRIED_AGAIN).await;
    ending.abort();
    nothing_is_left(servers).await;
    unused_semaphores_are_deleted(servers).await;
    names_come_back(servers).await;
}

/// Ends requests without TTL and session, which nothing else ends.
async fn end_what_nothing_ends(servers: &Servers) {
    let stay: Vec<ExternalId> = {
        let notes = servers.world.notes();
        let live = notes.ledger.grants.values().filter(|g| g.ended.is_none());
        let stay = live.filter(|grant| notes.ledger.lapses(grant).is_none());
        stay.map(|grant| grant.request.external_id.clone())
            .collect()
    };
    for (number, id) in stay.iter().enumerate() {
        release(servers, number, id.as_str()).await;
    }
}

/// P10: on each semaphore a caller wants all permits, and is granted them within a second after the last hold.
async fn want_everything(servers: &Arc<Servers>) {
    let mut wants = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let name = SemaphoreName::parse(name).expect("it is a name");
        let capacity = servers.world.notes().ledger.capacity(&name);
        if capacity > 0 {
            wants.push(tokio::spawn(want(servers.clone(), number, name, capacity)));
        }
    }
    for want in wants {
        let ended = want.await;
        servers
            .world
            .found(ensure(ended.is_ok(), "answers", || format!("{ended:?}")));
    }
}

async fn want(servers: Arc<Servers>, number: usize, name: SemaphoreName, capacity: u32) {
    let world = &servers.world;
    let begun = world.now();
    let count = Count::new(capacity).expect("it is one");
    let id = ExternalId::parse(format!("last-{name}")).expect("it is an id");
    let mut ask = Ask::new(id, [(name.clone(), count)]).expect("it is an ask");
    ask.ttl = Some(Ttl::new(LONG).expect("it is short"));
    let (its_name, lockhouse) = servers.at(number);
    // A poll that failed is retried after a pause, which may still last a while.
    let soon = if world.is_quiet {
        SOON
    } else {
        SOON + TRIED_AGAIN
    };
    let granted = lockhouse.acquire(ask, LONG).await;
    let now = world.now();
    let until = last_end(&servers, &name)
        .max(Some(begun))
        .expect("it is there");
    let is_late = now.duration_since(until).unsigned_abs() > soon && now > until;
    world.found(ensure(granted.is_ok() && !is_late, "P10", || {
        format!(
            "the last hold is over at {until}; a caller that waits for all {capacity} of {name} at \
             {its_name} since {begun} is answered at {now}: {granted:?}"
        )
    }));
    let released = lockhouse.release(format!("last-{name}")).await;
    world.found(ensure(released.is_ok(), "answers", || {
        format!("{released:?}")
    }));
}

/// The upkeep deletes the semaphores of a template that nobody uses.
async fn unused_semaphores_are_deleted(servers: &Servers) {
    let world = &servers.world;
    let Some((names, idle)) = world.notes().ledger.pools.to_be_deleted() else {
        return;
    };
    // The time of the last use is kept to the second, and the clock may have been set back.
    let set_back = world.notes().set_back;
    // In the first round, entries in the line count as a use.
    for _ in 0..2 {
        sleep(idle + Duration::from_secs(2) + set_back + HEARD_FOR).await;
        sweep(servers, 0).await;
    }
    for name in names {
        let row = world.rows.semaphore(&name).await.expect("memory answers");
        world.found(ensure(row.is_none(), "templates", || {
            format!("nobody has used {name} for {idle:?}, and it is there: {row:?}")
        }));
    }
}

/// P7: fences go on rising after all rows of a name were purged.
async fn names_come_back(servers: &Servers) {
    let world = &servers.world;
    let age = Duration::ZERO;
    for what in [Purge::Requests { age }, Purge::Semaphores { age }] {
        let purged = world.rows.purge(what, u32::MAX).await;
        purged.expect("memory answers");
    }
    let names = NAMES.map(|name| SemaphoreName::parse(name).expect("it is a name"));
    for name in names {
        let capacity = world.notes().ledger.capacity(&name);
        if capacity > 0 {
            let id = ExternalId::parse(format!("again-{name}")).expect("it is an id");
            let ask = Ask::new(id, [(name, Count::new(1).expect("it is one"))]);
            let (_, lockhouse) = servers.at(0);
            let granted = lockhouse.acquire(ask.expect("it is an ask"), LONG).await;
            world.found(ensure(granted.is_ok(), "P10", || format!("{granted:?}")));
        }
    }
}

/// When the last hold of `name` but this one ended, or could have been ended.
fn last_end(servers: &Servers, name: &SemaphoreName) -> Option<Timestamp> {
    let notes = servers.world.notes();
    let grants = notes.ledger.grants.values();
    let on_it = grants.filter(|grant| {
        let mut permits = grant.request.permits.iter();
        permits.any(|permit| permit.semaphore == *name)
    });
    on_it.filter_map(|grant| grant.over).max()
}

/// When the last live request lapses.
fn last_lapse(servers: &Servers) -> Option<Timestamp> {
    let notes = servers.world.notes();
    let live = notes.ledger.grants.values().filter(|g| g.ended.is_none());
    live.filter_map(|grant| notes.ledger.lapses(grant)).max()
}

/// Waits until the last hold has lapsed.
async fn outlive_all(servers: &Servers) {
    if let Some(until) = last_lapse(servers) {
        let left = until.duration_since(servers.world.now());
        sleep(Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1)).await;
    }
}

/// P2, P10: after a sweep all is free, nobody waits, and the rows add up.
async fn nothing_is_left(servers: &Servers) {
    let world = &servers.world;
    outlive_all(servers).await;
    sweep(servers, 0).await;
    for name in NAMES {
        for server in 0..servers.len() {
            let (its_name, lockhouse) = servers.at(server);
            let Ok(status) = lockhouse.status(name).await else {
                continue;
            };
            // The waiters of a killed process are counted until it has been silent for a minute.
            let waits = status.waiting > 0 && !servers.have_been_killed();
            let is_left = waits || status.semaphore.in_use > 0;
            world.found(ensure(!is_left, "P10", || {
                format!("{its_name}: {status:?} is left")
            }));
        }
    }
    let findings = world
        .rows
        .recount()
        .await
        .expect("memory answers")
        .findings();
    for finding in findings {
        world.found(ensure(false, finding.promise, || finding.text.clone()));
    }
    let order = {
        let notes = world.notes();
        notes.turns.check_order(&notes.ledger, world.is_quiet)
    };
    world.found(order);
}
