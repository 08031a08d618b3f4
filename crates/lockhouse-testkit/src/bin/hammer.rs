//! `hammer URL TASKS MILLISECONDS SEED`: tasks that acquire and release on three overlapping
//! semaphores as fast as they can, in every way that a client may.
//!
//! Prints how many grants there were. Fails on an answer that cannot be right, and only counts transient errors. Fails too
//! if the last releases take more than a minute, as when the store has ended. A URL that begins with `unlocked+` uses the store
//! without its locks.

use std::time::Duration;

use lockhouse::{Ask, Code, Count, Error, ExternalId, Lockhouse, Request, SemaphoreName, Ttl};
use lockhouse_testkit::broken;
use tokio::time::{Instant, sleep, timeout_at};

/// How long the last releases may take.
const AT_THE_END: Duration = Duration::from_secs(60);

const SEMAPHORES: [&str; 3] = ["north", "middle", "south"];

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, tasks, ms, seed] = &arguments[..] else {
        panic!("usage: hammer URL TASKS MILLISECONDS SEED")
    };
    let lockhouse = broken::connect(url).await.unwrap();
    let until = Instant::now() + Duration::from_millis(ms.parse().unwrap());
    let seed: u64 = seed.parse().unwrap();
    let mut hammering = tokio::task::JoinSet::new();
    for task in 0..tasks.parse().unwrap() {
        let random = fastrand::Rng::with_seed(seed << 16 | task);
        hammering.spawn(hammer(
            lockhouse.clone(),
            random,
            until,
            format!("{seed}-{task}"),
        ));
    }
    let mut total = Tally::default();
    let tallies = timeout_at(until + AT_THE_END, hammering.join_all()).await;
    for tally in tallies.expect("all is given back within a minute") {
        total.granted += tally.granted;
        total.transient += tally.transient;
    }
    println!("granted={} transient={}", total.granted, total.transient);
}

#[derive(Default)]
struct Tally {
    granted: u64,
    transient: u64,
}

async fn hammer(
    lockhouse: Lockhouse,
    mut random: fastrand::Rng,
    until: Instant,
    prefix: String,
) -> Tally {
    let mut tally = Tally::default();
    let mut held = None;
    for i in 0.. {
        let more = Instant::now() < until;
        if !more && held.is_none() {
            break;
        }
        let step = match held.take() {
            None => acquire(&lockhouse, &mut random, format!("{prefix}-{i}")).await,
            Some(request) => release(&lockhouse, &mut random, request)
                .await
                .map(|()| None),
        };
        match step {
            Ok(granted) => {
                tally.granted += u64::from(granted.is_some());
                held = granted;
            }
            Err(error) if error.is_transient() => tally.transient += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    tally
}

async fn acquire(
    lockhouse: &Lockhouse,
    random: &mut fastrand::Rng,
    id: String,
) -> Result<Option<Request>, Error> {
    let mut names = SEMAPHORES;
    random.shuffle(&mut names);
    let permits = names.iter().take(random.usize(1..=3)).map(|name| {
        (
            SemaphoreName::parse(name).unwrap(),
            Count::new(random.u32(1..=2)).unwrap(),
        )
    });
    let permits: Vec<_> = permits.collect();
    let mut ask = Ask::new(ExternalId::parse(&id).unwrap(), permits).unwrap();
    if random.u8(..) < 16 {
        ask.ttl = Some(Ttl::from_ms(1).unwrap());
    }
    let wait = Duration::from_millis(random.u64(0..50));
    match lockhouse.acquire(ask.clone(), wait).await {
        Err(error) if matches!(error.code(), Code::Exhausted | Code::RequestEnded) => {
            return Ok(None);
        }
        // The outcome is unknown, so the task asks again.
        Err(error) if error.maybe_applied() => {}
        Err(error) => return Err(error),
        Ok((request, _)) if random.u8(..) < 200 => return Ok(Some(request)),
        Ok(_) => {}
    }
    loop {
        match lockhouse.acquire(ask.clone(), wait).await {
            Ok((request, _)) => return Ok(Some(request)),
            Err(error) if matches!(error.code(), Code::Exhausted | Code::RequestEnded) => {
                return Ok(None);
            }
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Releases again until there is an answer, as nothing may stay held.
async fn release(
    lockhouse: &Lockhouse,
    random: &mut fastrand::Rng,
    request: Request,
) -> Result<(), Error> {
    sleep(Duration::from_micros(random.u64(0..3000))).await;
    let times = 1 + usize::from(random.u8(..) < 32);
    let mut answered = 0;
    while answered < times {
        match lockhouse.release(&request.external_id).await {
            Ok(_) => answered += 1,
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
