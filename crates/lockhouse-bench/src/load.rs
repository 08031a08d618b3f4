//! The closed loop: each client acquires and releases again as soon as it has its answers.
//!
//! All clients connect before the first one begins, and all run until the end. A pair of an acquire and a release counts if
//! its release is within the measured time. So a pair that began before that time counts, and a pair that its end cuts off
//! does not. The warm-up lasts until every client has done its first pair. So the work that a connection needs once, such as
//! preparing statements, is not measured. Errors count from the beginning to the end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use uuid::Uuid;

use crate::Failed;
use crate::contender::{Client, Contender, Failure};
use crate::holds::Holds;
use crate::measured::{Measured, Times, Work};
use crate::progress::Progress;
use crate::shape::{Ask, Shape};

/// Clients share this many histograms, so that they seldom wait for one, and memory stays small.
const SHARDS: usize = 16;

/// So many errors in a row, and nothing else, of one client end the run.
const HOPELESS: u32 = 100;

/// How many clients connect at once.
const CONNECTING: usize = 16;

/// How much longer than the time it may take until there is a pair.
const FIRST_PAIR: Duration = Duration::from_secs(10);

/// How much longer than it should the warm-up may take until every client has had a first pair.
const ALL_WARM: Duration = Duration::from_secs(20);

/// State that the clients share.
struct Track {
    shape: Shape,
    measuring: AtomicBool,
    over: watch::Sender<bool>,
    pairs: AtomicU64,
    /// How many clients have had their first pair, or error.
    warm: AtomicUsize,
    /// Notified when all have.
    all_warm: Notify,
    /// Notified with the first pair that is measured.
    first: Notify,
    shards: Vec<Mutex<Shard>>,
    holds: Holds,
}

impl Track {
    fn one_is_warm(&self) {
        if self.warm.fetch_add(1, Ordering::Relaxed) + 1 == self.shape.clients {
            self.all_warm.notify_one();
        }
    }

    /// How long a client holds, which ends with the run.
    async fn hold(&self) {
        self.rest(self.shape.hold()).await;
    }

    /// For `long`, or until the run ends.
    async fn rest(&self, long: Duration) {
        if !long.is_zero() {
            let mut over = self.over.subscribe();
            let _ = timeout(long, over.wait_for(|over| *over)).await;
        }
    }
}

#[derive(Default)]
struct Shard {
    acquire: Times,
    release: Times,
    errors: BTreeMap<String, u64>,
}

/// The result of one client.
struct Finished {
    pairs: u64,
    retries: BTreeMap<String, u64>,
}

/// Prepares `contender`, puts it under load as [`run`] does, and removes what it made, however it
/// ends. None if `stop` resolved before anything was measured.
///
/// # Errors
/// When it can't be prepared or cleared, a client can't connect, or one sees nothing but errors.
pub async fn bench(
    contender: &dyn Contender,
    shape: &Shape,
    progress: &dyn Progress,
    stop: impl Future,
) -> Result<Option<Measured>, Failed> {
    let mut stop = pin!(stop);
    let before = shape.held + shape.ended;
    if before > 0 {
        progress.say(&format!("making {before} requests first"));
    }
    let mut preparing = contender.prepare(shape);
    // Wait for calls under way: their rows would otherwise appear after everything has been
    // removed.
    let prepared = tokio::select! {
        prepared = &mut preparing => prepared.map(|()| true),
        _ = &mut stop => {
            contender.interrupt();
            preparing.await.map(|()| false)
        }
    };
    let measured = match prepared {
        Ok(true) => run(contender, shape, progress, stop).await.map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    let cleared = contender.clear().await;
    if let (Err(_), Err(error)) = (&measured, &cleared) {
        progress.say(&format!("clearing up failed too: {error}"));
    }
    let measured = measured?;
    cleared?;
    Ok(measured.filter(|measured| measured.seconds > 0.0))
}

/// Puts `contender`, which has been prepared, under load, until the time is over or `stop`
/// resolves, and says what came of it.
///
/// # Errors
/// When a client can't connect, or sees nothing but errors.
pub async fn run(
    contender: &dyn Contender,
    shape: &Shape,
    progress: &dyn Progress,
    stop: impl Future,
) -> Result<Measured, Failed> {
    let track = Arc::new(Track {
        shape: shape.clone(),
        measuring: AtomicBool::new(false),
        over: watch::Sender::new(false),
        pairs: AtomicU64::new(0),
        warm: AtomicUsize::new(0),
        all_warm: Notify::new(),
        first: Notify::new(),
        shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        holds: Holds::of(shape),
    });
    let clients = connect(contender, shape.clients).await?;
    let mut running = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        let process = contender.process_of(number);
        running.spawn(go(Arc::clone(&track), client, number, process));
    }
    let timed = tokio::select! {
        timed = time(contender, &track, progress, stop) => timed,
        broken = first_failure(&mut running) => return Err(broken),
    };
    let mut pairs = Vec::new();
    let mut retries = BTreeMap::new();
    while let Some(finished) = running.join_next().await {
        let finished = finished??;
        pairs.push(finished.pairs);
        add(&mut retries, finished.retries);
    }
    measured(contender, &track, timed, &pairs, retries).await
}

#[derive(Default)]
struct Timed {
    took: Duration,
    work: Option<Work>,
}

/// Lets the clients warm up, and then takes the time.
async fn time(
    contender: &dyn Contender,
    track: &Track,
    progress: &dyn Progress,
    stop: impl Future,
) -> Timed {
    let mut stop = pin!(stop);
    tokio::select! {
        () = warm_up(track) => {}
        _ = &mut stop => {
            track.over.send_replace(true);
            return Timed::default();
        }
    }
    let before = contender.work();
    let begun = Instant::now();
    track.measuring.store(true, Ordering::Relaxed);
    tokio::select! {
        () = enough(track) => {}
        () = tell(contender, track, progress) => {}
        _ = &mut stop => {}
    }
    track.measuring.store(false, Ordering::Relaxed);
    track.over.send_replace(true);
    let work = contender.work().zip(before);
    Timed {
        took: begun.elapsed(),
        work: work.map(|(after, before)| after.since(before)),
    }
}

async fn warm_up(track: &Track) {
    sleep(track.shape.warm_up()).await;
    // A client that is not warm by then is measured all the same.
    let _ = timeout(ALL_WARM, track.all_warm.notified()).await;
}

/// The time is over, and there has been a pair; where that is long in coming, it is waited for.
async fn enough(track: &Track) {
    sleep(track.shape.time()).await;
    // If there has been none by then, there is none to tell of.
    let _ = timeout(FIRST_PAIR, track.first.notified()).await;
}

async fn tell(contender: &dyn Contender, track: &Track, progress: &dyn Progress) {
    let mut every = interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every.tick().await;
    let (mut last, mut last_at) = (0, Instant::now());
    for second in 1.. {
        every.tick().await;
        let pairs = track.pairs.load(Ordering::Relaxed);
        let rate = (pairs - last) as f64 / last_at.elapsed().as_secs_f64();
        (last, last_at) = (pairs, Instant::now());
        progress.second(&contender.name(), second, &track.shape, rate);
    }
}

async fn connect(
    contender: &dyn Contender,
    clients: usize,
) -> Result<Vec<Box<dyn Client>>, Failed> {
    use futures_util::{StreamExt, TryStreamExt, stream};
    stream::iter((0..clients).map(|number| contender.client(number)))
        .buffered(CONNECTING)
        .try_collect()
        .await
}

/// A client that ends before the time is over has failed.
async fn first_failure(running: &mut JoinSet<Result<Finished, Failed>>) -> Failed {
    loop {
        match running.join_next().await {
            Some(Ok(Ok(_))) => {}
            Some(Ok(Err(error))) => return error,
            Some(Err(died)) => return died.into(),
            None => return std::future::pending().await,
        }
    }
}

async fn go(
    track: Arc<Track>,
    mut client: Box<dyn Client>,
    number: usize,
    process: usize,
) -> Result<Finished, Failed> {
    let shape = &track.shape;
    let shard = &track.shards[number % SHARDS];
    let mut random = fastrand::Rng::with_seed(shape.seed << 20 | number as u64);
    let mut semaphores = Vec::with_capacity(shape.each);
    let (mut pairs, mut in_a_row) = (0, 0);
    let mut is_warm = false;
    while !*track.over.borrow() {
        draw(&mut random, &mut semaphores, shape);
        let external_id = Uuid::now_v7().to_string();
        let ask = Ask {
            external_id: &external_id,
            semaphores: &semaphores,
            count: shape.count,
        };
        let pair = pair(&mut *client, &ask, &track).await;
        let counts = track.measuring.load(Ordering::Relaxed);
        if !std::mem::replace(&mut is_warm, true) {
            track.one_is_warm();
        }
        match pair {
            Ok(Pair {
                acquire,
                release,
                held,
            }) => {
                in_a_row = 0;
                if counts {
                    track.holds.note(process, held);
                    pairs += 1;
                    if track.pairs.fetch_add(1, Ordering::Relaxed) == 0 {
                        track.first.notify_one();
                    }
                    let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    shard.acquire.record(acquire);
                    shard.release.record(release);
                }
            }
            Err(failure) => {
                in_a_row += 1;
                if in_a_row == HOPELESS {
                    return Err(format!("nothing but errors: {}", failure.text).into());
                }
                let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                *shard.errors.entry(failure.kind).or_default() += 1;
            }
        }
        track.rest(shape.pause()).await;
    }
    Ok(Finished {
        pairs,
        retries: client.retries(),
    })
}

/// Draws as many as an ask is on, in random order.
fn draw(random: &mut fastrand::Rng, semaphores: &mut Vec<usize>, shape: &Shape) {
    semaphores.clear();
    while semaphores.len() < shape.each.min(shape.semaphores) {
        let drawn = random.usize(0..shape.semaphores);
        if !semaphores.contains(&drawn) {
            semaphores.push(drawn);
        }
    }
}

/// How long both calls took, and from when to when the permits were held.
struct Pair {
    acquire: Duration,
    release: Duration,
    held: Range<Instant>,
}

async fn pair(client: &mut dyn Client, ask: &Ask<'_>, track: &Track) -> Result<Pair, Failure> {
    let begun = Instant::now();
    client.acquire(ask).await?;
    let granted = Instant::now();
    track.hold().await;
    let released = Instant::now();
    client.release().await?;
    Ok(Pair {
        acquire: granted - begun,
        release: released.elapsed(),
        held: granted..released,
    })
}

async fn measured(
    contender: &dyn Contender,
    track: &Track,
    timed: Timed,
    pairs: &[u64],
    retries: BTreeMap<String, u64>,
) -> Result<Measured, Failed> {
    let mut all = Shard::default();
    for shard in &track.shards {
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        all.acquire.add(&shard.acquire);
        all.release.add(&shard.release);
        add(&mut all.errors, shard.errors.clone());
    }
    let total: u64 = pairs.iter().sum();
    let seconds = timed.took.as_secs_f64();
    let least = pairs.iter().min().copied().unwrap_or_default();
    let mean = total as f64 / pairs.len().max(1) as f64;
    Ok(Measured {
        contender: contender.name(),
        shape: track.shape.clone(),
        server: contender.server().await?,
        seconds,
        pairs: total,
        rate: if seconds > 0.0 {
            total as f64 / seconds
        } else {
            0.0
        },
        acquire: all.acquire.latency(),
        release: all.release.latency(),
        errors: all.errors,
        retries,
        work: timed.work,
        slowest_client: if mean > 0.0 { least as f64 / mean } else { 0.0 },
        idle: track.holds.idle(),
    })
}

fn add(to: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (kind, count) in more {
        *to.entry(kind).or_default() += count;
    }
}
