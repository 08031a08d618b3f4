//! Calls that need locked rows, and calls of strangers.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};
use lockhouse::{Error, Lockhouse};
use tokio::time::sleep;

use crate::rows::{LOCKED, STRANGERS};

/// How long each caller rests after its calls. Without a rest, callers would only keep the processors busy.
const REST: Duration = Duration::from_millis(100);

/// The strangers' calls.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) made: AtomicU32,
    pub(crate) longest: Mutex<(Duration, &'static str)>,
    pub(crate) failed: Mutex<Vec<String>>,
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

/// Runs the calls of strangers and of concerned callers until `done`.
pub(crate) async fn call_for(
    engines: &[Lockhouse],
    phase: &str,
    done: impl Future<Output = ()>,
) -> Calls {
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
        sleep(REST).await;
    }
}

/// Renews its own request, which holds a permit of a semaphore with a locked row.
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
        sleep(REST).await;
    }
}

/// Acquires and releases a permit of this customer's key, which is new in every other round, and a permit of the semaphore
/// that all keys share.
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
        let owner = format!("caller-{own_id}-{}", round / 2);
        let beat = engine.heartbeat(owner, Duration::from_secs(600));
        calls.time("heartbeat", beat).await;
        sleep(REST).await;
    }
}

/// Calls for locked rows, together with a semaphore that is not locked. Its calls may fail.
async fn concerned(engine: &Lockhouse, own_id: String, number: usize, is_over: &AtomicBool) {
    let (held, name) = (format!("held-{number}"), format!("locked-{number}"));
    let (owner, free) = (format!("owner-{number}"), format!("stranger-{number}"));
    let (mut round, ttl) = (0, Duration::from_secs(600));
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let in_gap = engine.request_with_id(format!("gap-{number}-f-{own_id}-{round}"));
        let in_gap = async {
            let ask = in_gap.permits(&name, 1).permits(&free, 1);
            if let Ok(permit) = ask.ttl(ttl).try_acquire().await {
                let _ = permit.release().await;
            }
        };
        let both = engine.request_with_id(format!("both-{own_id}-{round}"));
        let both = both.permits(&name, 1).permits(&free, 1).ttl(ttl);
        let both = async {
            if let Ok(permit) = both.try_acquire().await {
                let _ = permit.release().await;
            }
        };
        let waits = engine.request_with_id(format!("key-{own_id}-{round}"));
        let waits = waits
            .permits(format!("key-{number}/locked"), 1)
            .permits("all", 1)
            .ttl(ttl);
        let waits = async {
            if let Ok(permit) = waits.acquire().await {
                let _ = permit.release().await;
            }
        };
        let (beat, new) = (
            engine.heartbeat(&owner, ttl),
            create(engine, &own_id, round),
        );
        let at_most = Duration::from_secs(3);
        let calls =
            async { tokio::join!(engine.renew(&held, None), both, waits, in_gap, beat, new) };
        // A caller may give up, and call again.
        let _ = tokio::time::timeout(at_most, calls).await;
        sleep(REST).await;
    }
}

/// Creates a semaphore by its first use, another one by a definition, and a session. Their keys are in the locked gaps.
async fn create(engine: &Lockhouse, own_id: &str, round: u32) {
    let name = format!("new/f-{own_id}-{round}");
    let used = engine.semaphore(&name);
    let used = async {
        if let Ok(permit) = used.try_acquire().await {
            let _ = permit.release().await;
        }
    };
    let defined = async {
        let _ = engine.define(format!("{name}-defined"), 1).await;
    };
    let owner = format!("owner-f-{own_id}-{round}");
    let beat = engine.heartbeat(owner, Duration::from_secs(600));
    let _ = tokio::join!(used, defined, beat);
}
