//! P13: a row that another transaction keeps locked delays only the calls that need that row.
//!
//! An application keeps three rows locked, as one does that reads them with `FOR SHARE` in a long
//! transaction, or a peer that is frozen in the middle of one. All the while, callers at one engine or
//! at two call for those rows, so that they share batches with strangers. The strangers must
//! see no error, no lost hold, and no call over 1.5 s.
//!
//! `LOCKHOUSE_ISOLATION_MS` says for how long the rows are locked (6 s).

#![allow(clippy::unwrap_used)]

use std::env;
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};
use lockhouse::{Error, Lockhouse};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::sleep;

const LONGEST_CALL: Duration = Duration::from_millis(1_500);
const STRANGERS: usize = 16;
const LOCKED: usize = 3;

on_each_store! { row locks:
    locked_requests_delay_only_their_own_calls_at_one_engine,
    locked_requests_delay_only_their_own_calls_at_two_engines,
    locked_semaphores_delay_only_their_own_calls_at_one_engine,
    locked_semaphores_delay_only_their_own_calls_at_two_engines,
    locked_sessions_delay_only_their_own_calls_at_two_engines,
    locked_keys_delay_only_their_own_calls_at_two_engines,
    locked_templates_delay_nobody_at_one_engine,
    locked_templates_delay_nobody_at_two_engines,
    a_locked_gap_delays_only_asks_by_ids_in_it_at_one_engine,
    a_locked_gap_delays_only_asks_by_ids_in_it_at_two_engines,
    an_ask_by_an_id_in_a_locked_gap_is_told_and_done_once_it_is_free,
}

async fn locked_requests_delay_only_their_own_calls_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Requests).await;
}

async fn locked_requests_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Requests).await;
}

async fn locked_semaphores_delay_only_their_own_calls_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Semaphores).await;
}

async fn locked_semaphores_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Semaphores).await;
}

async fn locked_sessions_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Sessions).await;
}

async fn locked_keys_delay_only_their_own_calls_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Keys).await;
}

async fn locked_templates_delay_nobody_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Templates).await;
}

async fn locked_templates_delay_nobody_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Templates).await;
}

async fn a_locked_gap_delays_only_asks_by_ids_in_it_at_one_engine(place: Place) {
    isolated(place, 1, Rows::Gap).await;
}

async fn a_locked_gap_delays_only_asks_by_ids_in_it_at_two_engines(place: Place) {
    isolated(place, 2, Rows::Gap).await;
}

/// The error is not the database's own, and says what to look for. PostgreSQL locks no gaps.
async fn an_ask_by_an_id_in_a_locked_gap_is_told_and_done_once_it_is_free(place: Place) {
    let lockhouse = place.client().await;
    set_up(&lockhouse).await;
    let mut lock = lock(&place, Rows::Gap, 0).await;
    let ask = |id| lockhouse.request_with_id(id).permits("locked-0", 1);
    let began = Instant::now();
    let (refused, waited, beside) = tokio::join!(
        ask("gap-0-c").try_acquire(),
        async {
            let permit = ask("gap-0-d").wait(Duration::from_secs(60)).acquire().await;
            (permit, began.elapsed())
        },
        async {
            let permit = ask("gap-1-c").try_acquire().await;
            let took = began.elapsed();
            // Once the first call has given up.
            sleep(Duration::from_secs(12)).await;
            lock.run("ROLLBACK").await;
            (permit, took)
        },
    );
    beside.0.unwrap().release().await.unwrap();
    waited.0.unwrap().release().await.unwrap();
    if !place.url().starts_with("postgres") {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), lockhouse::Code::StoreUnavailable);
        let told = refused.to_string();
        assert!(
            told.contains("another transaction of the database"),
            "{told}"
        );
        assert!(!told.contains("1205"), "{told}");
        assert!(waited.1 > Duration::from_secs(12), "{:?}", waited.1);
    }
    assert!(waited.1 < Duration::from_secs(15), "{:?}", waited.1);
    assert!(beside.1 < Duration::from_secs(3), "{:?}", beside.1);
    ask("gap-0-c")
        .try_acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    drop(lockhouse);
    place.clear().await;
}

/// Which rows are locked.
#[derive(Clone, Copy)]
enum Rows {
    Requests,
    Semaphores,
    Sessions,
    /// Semaphores that a template created.
    Keys,
    /// Two templates, and the row of the store's epoch.
    Templates,
    /// The gap between two requests, by a read of an id that does not exist.
    Gap,
}

impl Rows {
    /// How many are locked.
    fn many(self) -> usize {
        match self {
            Rows::Gap => 1,
            _ => LOCKED,
        }
    }

    /// An INSERT waits for a second, and its transaction keeps semaphores locked meanwhile. Each
    /// process finds the gap so.
    fn more_for_each_further_engine(self) -> Duration {
        match self {
            Rows::Gap => Duration::from_millis(1_500),
            _ => Duration::ZERO,
        }
    }

    /// The statement that locks the row of `number`, as far as the kinds of servers agree on it.
    fn lock(self, place: &Place, number: usize) -> String {
        let is_postgres = place.url().starts_with("postgres");
        // A scan of a small table would lock all of it.
        let (share, by) = match is_postgres {
            true => ("FOR SHARE", ["", "", ""]),
            false => (
                "LOCK IN SHARE MODE",
                [
                    "FORCE INDEX (external_id)",
                    "FORCE INDEX (name)",
                    "FORCE INDEX (PRIMARY)",
                ],
            ),
        };
        match self {
            Rows::Requests => format!(
                "SELECT id FROM lockhouse_permit_request {} \
                 WHERE external_id='held-{number}' {share}",
                by[0]
            ),
            Rows::Semaphores => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='locked-{number}' FOR UPDATE",
                by[1]
            ),
            Rows::Gap => format!(
                "SELECT id FROM lockhouse_permit_request {} \
                 WHERE external_id='gap-{number}-m' {share}",
                by[0]
            ),
            Rows::Sessions => format!(
                "SELECT owner FROM lockhouse_owner_session {} \
                 WHERE owner='owner-{number}' FOR UPDATE",
                by[2]
            ),
            Rows::Keys => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='key-{number}/locked' FOR UPDATE",
                by[1]
            ),
            Rows::Templates if number == 0 => format!(
                "SELECT id FROM lockhouse_semaphore {} WHERE name='lockhouse:epoch' FOR UPDATE",
                by[1]
            ),
            Rows::Templates => format!(
                "SELECT pattern FROM lockhouse_template WHERE pattern='key-{number}/*' FOR UPDATE"
            ),
        }
    }
}

/// The strangers' calls.
#[derive(Default)]
struct Calls {
    made: AtomicU32,
    longest: Mutex<(Duration, &'static str)>,
    failed: Mutex<Vec<String>>,
}

impl Calls {
    async fn time<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let began = Instant::now();
        let answer = call.await;
        let took = began.elapsed();
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut longest = self.longest.lock().unwrap();
        *longest = (*longest).max((took, what));
        answer
            .map_err(|error| self.failed.lock().unwrap().push(format!("{what}: {error}")))
            .ok()
    }
}

async fn isolated(place: Place, engines: u32, rows: Rows) {
    let further = engines - 1;
    let engines: Vec<_> = join_all((0..engines).map(|_| place.client())).await;
    set_up(&engines[0]).await;
    // The holds of strangers, which renew themselves.
    let holds = hold(&engines).await;
    let before = call_for(&engines, "before", sleep(Duration::from_secs(1))).await;
    let mut locks = Vec::new();
    for number in 0..rows.many() {
        locks.push(lock(&place, rows, number).await);
    }
    let while_locked = async {
        sleep(locked_for()).await;
        for lock in &mut locks {
            lock.run("ROLLBACK").await;
        }
    };
    let calls = call_for(&engines, "locked", while_locked).await;

    let failed = calls.failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
    let (usual, _) = before.longest.into_inner().unwrap();
    let (longest, what) = calls.longest.into_inner().unwrap();
    let made = calls.made.into_inner();
    println!("{made} calls, the longest took {longest:?} ({what}), {usual:?} without the locks");
    // On a machine that is busy with other things, all calls take longer.
    assert!(
        longest <= LONGEST_CALL + rows.more_for_each_further_engine() * further + usual,
        "{what} took {longest:?}, of {made} calls, and {usual:?} at most without the locks"
    );
    assert!(made > 100, "only {made} calls");
    for hold in holds {
        assert!(!hold.is_lost(), "{} was lost", hold.external_id());
        hold.release().await.unwrap();
    }
    drop(engines);
    place.clear().await;
}

/// A session that keeps the row of `number` locked.
async fn lock(place: &Place, rows: Rows, number: usize) -> Database {
    let mut session = Database::open(place.url()).await;
    let level = match rows {
        Rows::Gap => "REPEATABLE READ",
        // At REPEATABLE READ, MariaDB locks the gap before the row too.
        _ => "READ COMMITTED",
    };
    session.run(&isolation(place, level)).await;
    session.run("START TRANSACTION").await;
    session.run(&rows.lock(place, number)).await;
    session
}

/// Has strangers and others call until `done`.
async fn call_for(engines: &[Lockhouse], phase: &str, done: impl Future<Output = ()>) -> Calls {
    let (calls, is_over) = (Calls::default(), AtomicBool::new(false));
    let mut all: Vec<BoxFuture<'_, ()>> = Vec::new();
    for (i, engine) in engines.iter().enumerate() {
        let id = format!("{phase}-{i}");
        for number in 0..STRANGERS {
            all.push(stranger(engine, format!("{id}-{number}"), number, &calls, &is_over).boxed());
        }
        for number in 0..LOCKED {
            all.push(neighbour(engine, i, number, &calls, &is_over).boxed());
            all.push(customer(engine, format!("{id}-{number}"), number, &calls, &is_over).boxed());
            all.push(concerned(engine, format!("{id}-{number}"), number, &is_over).boxed());
        }
    }
    let done = async {
        done.await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all(all), done);
    calls
}

fn isolation(place: &Place, level: &str) -> String {
    let characteristics = match place.url().starts_with("postgres") {
        true => "CHARACTERISTICS AS ",
        false => "",
    };
    format!("SET SESSION {characteristics}TRANSACTION ISOLATION LEVEL {level}")
}

fn locked_for() -> Duration {
    let ms = env::var("LOCKHOUSE_ISOLATION_MS").map_or(6_000, |ms| ms.parse().unwrap());
    Duration::from_millis(ms)
}

async fn set_up(lockhouse: &Lockhouse) {
    lockhouse.raise_epoch(None).await.unwrap();
    lockhouse.define("all", 1_000).await.unwrap();
    for number in 0..STRANGERS {
        lockhouse
            .define(format!("stranger-{number}"), 8)
            .await
            .unwrap();
    }
    for number in 0..LOCKED {
        let name = format!("locked-{number}");
        lockhouse.define(&name, 20).await.unwrap();
        let pattern = format!("key-{number}/*");
        lockhouse.template(pattern, 20).await.unwrap();
        let key = lockhouse.semaphore(format!("key-{number}/locked"));
        key.try_acquire().await.unwrap().release().await.unwrap();
        let owner = format!("owner-{number}");
        lockhouse
            .heartbeat(&owner, Duration::from_secs(600))
            .await
            .unwrap();
        let held = lockhouse
            .request_with_id(format!("held-{number}"))
            .permits(&name, 1);
        held.owner(&owner)
            .ttl(Duration::from_secs(600))
            .try_acquire()
            .await
            .unwrap()
            .forget();
        let beside = (0..2).map(|engine| format!("beside-{engine}-{number}"));
        let ends = ["a", "z"].map(|end| format!("gap-{number}-{end}"));
        for id in beside.chain(ends) {
            let beside = lockhouse.request_with_id(id).permits(&name, 1);
            beside
                .ttl(Duration::from_secs(600))
                .try_acquire()
                .await
                .unwrap()
                .forget();
        }
    }
}

async fn hold(engines: &[Lockhouse]) -> Vec<lockhouse::Permit> {
    let mut holds = Vec::new();
    for engine in engines {
        for name in ["stranger-0", "stranger-9", "locked-1"] {
            let hold = engine
                .request()
                .permits(name, 1)
                .ttl(Duration::from_secs(4));
            holds.push(hold.try_acquire().await.unwrap());
        }
    }
    holds
}

/// Acquires, renews and releases on a semaphore that nobody locks.
async fn stranger(
    engine: &Lockhouse,
    own_id: String,
    number: usize,
    calls: &Calls,
    is_over: &AtomicBool,
) {
    let (name, mut round) = (format!("stranger-{number}"), 0);
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let id = format!("stranger-{own_id}-{round}");
        let ask = engine
            .request_with_id(&id)
            .permits(&name, 1)
            .ttl(Duration::from_secs(600));
        if let Some(permit) = calls.time("acquire", ask.try_acquire()).await {
            permit.forget();
            calls.time("renew", engine.renew(&id, None)).await;
            calls.time("release", engine.release(&id)).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Renews a request of its own that holds a permit of a semaphore of which something is locked.
async fn neighbour(
    engine: &Lockhouse,
    engine_number: usize,
    number: usize,
    calls: &Calls,
    is_over: &AtomicBool,
) {
    let id = format!("beside-{engine_number}-{number}");
    while !is_over.load(Ordering::Relaxed) {
        calls
            .time("renewal beside it", engine.renew(&id, None))
            .await;
        sleep(Duration::from_millis(10)).await;
    }
}

/// Acquires and releases a permit of a key of its own, new in every other round, and one of the
/// semaphore that all keys share.
async fn customer(
    engine: &Lockhouse,
    own_id: String,
    number: usize,
    calls: &Calls,
    is_over: &AtomicBool,
) {
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let (key, what) = match round % 2 {
            0 => (format!("key-{number}/free"), "acquire of a key"),
            _ => (
                format!("key-{number}/{own_id}-{round}"),
                "acquire of a new key",
            ),
        };
        let id = format!("customer-{own_id}-{round}");
        let ask = engine.request_with_id(&id).permits(key, 1);
        let ask = ask.permits("all", 1).ttl(Duration::from_secs(600));
        if let Some(permit) = calls.time(what, ask.try_acquire()).await {
            permit.forget();
            calls.time("release of a key", engine.release(&id)).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Calls for what is locked, together with a semaphore that is not. Its calls may fail.
async fn concerned(engine: &Lockhouse, own_id: String, number: usize, is_over: &AtomicBool) {
    let (held, name) = (format!("held-{number}"), format!("locked-{number}"));
    let (owner, free) = (format!("owner-{number}"), format!("stranger-{number}"));
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let in_gap = engine.request_with_id(format!("gap-{number}-f-{own_id}-{round}"));
        let in_gap = async {
            let ask = in_gap.permits(&name, 1).permits(&free, 1);
            if let Ok(permit) = ask.ttl(Duration::from_secs(600)).try_acquire().await {
                let _ = permit.release().await;
            }
        };
        let both = engine.request_with_id(format!("both-{own_id}-{round}"));
        let both = both
            .permits(&name, 1)
            .permits(&free, 1)
            .ttl(Duration::from_secs(600));
        let both = async {
            if let Ok(permit) = both.try_acquire().await {
                let _ = permit.release().await;
            }
        };
        let waits = engine.request_with_id(format!("key-{own_id}-{round}"));
        let waits = waits
            .permits(format!("key-{number}/locked"), 1)
            .permits("all", 1)
            .ttl(Duration::from_secs(600));
        let waits = async {
            if let Ok(permit) = waits.acquire().await {
                let _ = permit.release().await;
            }
        };
        let beat = engine.heartbeat(&owner, Duration::from_secs(600));
        let at_most = Duration::from_secs(3);
        let calls = async { tokio::join!(engine.renew(&held, None), both, waits, in_gap, beat) };
        // A caller may give up, and call again.
        let _ = tokio::time::timeout(at_most, calls).await;
        sleep(Duration::from_millis(20)).await;
    }
}
