//! `waiting URL [sharing]`: measures how long a handover takes, how much waiting costs the database, and how fast a line is
//! served by one engine and by several, which stand for several servers. URL names an empty database. With `sharing` it
//! measures only the last.

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName};
use lockhouse_testkit::place::statements;
use tokio::time::sleep;

const LONG: Duration = Duration::from_secs(600);

#[tokio::main(worker_threads = 2)]
async fn main() {
    let usage = "usage: waiting URL [sharing]";
    let url = std::env::args().nth(1).expect(usage);
    if std::env::args()
        .nth(2)
        .is_some_and(|only| only == "sharing")
    {
        return sharing(&url).await;
    }
    let (one, two) = (
        Lockhouse::connect(&url).await.unwrap(),
        Lockhouse::connect(&url).await.unwrap(),
    );
    let acquire = acquire_p50(&one, 0..1).await;
    println!("acquire p50, one right after the other, {acquire:?}");
    // A handover comes after a pause, when neither this process nor the server is warm.
    let acquire = acquire_p50(&one, 0..30).await;
    println!("acquire p50, each after a pause as below, {acquire:?}");
    let within = handover_p50(&one, &one, "within", 300, 0..30).await;
    let times = within.as_secs_f64() / acquire.as_secs_f64();
    println!("handover within a server p50 {within:?}, {times:.2} of an acquire");
    for held_ms in [10..50, 50..300, 900..1100] {
        let rounds = if held_ms.start < 900 { 100 } else { 25 };
        let across = handover_p50(&one, &two, "across", rounds, held_ms.clone()).await;
        println!("handover across two servers, held {held_ms:?} ms, p50 {across:?}");
    }
    let without = rate_without_waiting(&one).await;
    let with = rate_of_a_line(&one).await;
    println!(
        "1,000 in line for 10 permits, 1 ms each: {with:.0}/s, without waiting {without:.0}/s, {:.2}",
        with / without
    );
    if !url.starts_with("sqlite") {
        queries_of_a_line(&one, &url).await;
    }
    sharing(&url).await;
}

/// Sixteen waiters share one permit, at 1, 2 and 4 engines in turn.
async fn sharing(url: &str) {
    for held_ms in [20, 1] {
        let mut alone = Vec::new();
        for round in 0..ROUNDS {
            let mut rates = Vec::new();
            for engines in [1, 2, 4] {
                let on = format!("shared-{held_ms}-{round}-{engines}");
                let shared = share(url, &on, engines, Duration::from_millis(held_ms)).await;
                rates.push(shared.rate);
                alone.push((engines, shared.rate / rates[0], shared));
            }
        }
        for engines in [1, 2, 4] {
            let of = alone.iter().filter(|(many, ..)| *many == engines);
            let ratios: Vec<_> = of.clone().map(|(_, ratio, _)| *ratio).collect();
            let rates: Vec<_> = of.clone().map(|(.., shared)| shared.rate).collect();
            let mut idle: Vec<_> = of
                .clone()
                .flat_map(|(.., shared)| &shared.idle)
                .copied()
                .collect();
            let slowest = of.map(|(.., shared)| shared.slowest).fold(0.0, f64::max);
            idle.sort();
            let idle = idle.get(idle.len() / 2);
            println!(
                "{engines} engines, held {held_ms} ms: {:.1} grants/s, {:.2} of one engine; idle at a switch p50 {idle:?}; \
                 slowest engine's waits {slowest:.2} of the mean",
                middle(rates),
                middle(ratios),
            );
        }
    }
}

const ROUNDS: usize = 3;

/// How long each engine's waiters go on.
const SHARED_FOR: Duration = Duration::from_secs(6);

/// How sixteen waiters at several engines fared.
struct Shared {
    rate: f64,
    /// From each release to the next grant, where that was another engine's.
    idle: Vec<Duration>,
    /// How long the waits of the slowest engine were on average, relative to those of all.
    slowest: f64,
}

/// One hold: whose it was, how long it was waited for, from when to when.
struct Held {
    engine: usize,
    waited: Duration,
    from: Instant,
    to: Instant,
}

async fn share(url: &str, on: &str, engines: usize, held: Duration) -> Shared {
    let mut clients = Vec::new();
    for _ in 0..engines {
        clients.push(Lockhouse::connect(url).await.unwrap());
    }
    clients[0].define(on, 1).await.unwrap();
    let loops = (0..16).map(|waiter| {
        let engine = waiter % engines;
        let (lockhouse, on) = (clients[engine].clone(), on.to_owned());
        tokio::spawn(async move {
            let (begun, mut holds) = (Instant::now(), Vec::new());
            while begun.elapsed() < SHARED_FOR {
                let id = format!("{on}-{waiter}-{}", holds.len());
                let asked = Instant::now();
                lockhouse.acquire(ask(&id, &on), LONG).await.unwrap();
                let from = Instant::now();
                sleep(held).await;
                let to = Instant::now();
                lockhouse.release(&id).await.unwrap();
                let waited = from - asked;
                holds.push(Held {
                    engine,
                    waited,
                    from,
                    to,
                });
            }
            holds
        })
    });
    let mut holds: Vec<Held> = Vec::new();
    for done in join_all(loops).await {
        holds.extend(done.unwrap());
    }
    holds.sort_by_key(|hold| hold.from);
    let switches = holds
        .windows(2)
        .filter(|two| two[0].engine != two[1].engine);
    let idle = switches.map(|two| two[1].from.saturating_duration_since(two[0].to));
    let mean = |holds: &[&Held]| {
        let waited: Duration = holds.iter().map(|hold| hold.waited).sum();
        waited.as_secs_f64() / holds.len() as f64
    };
    let of_engine = |engine| {
        holds
            .iter()
            .filter(move |hold| hold.engine == engine)
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = holds.iter().collect();
    let slowest = (0..engines).map(|engine| mean(&of_engine(engine)) / mean(&all));
    Shared {
        rate: holds.len() as f64 / SHARED_FOR.as_secs_f64(),
        idle: idle.collect(),
        slowest: slowest.fold(0.0, f64::max),
    }
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn ask(id: &str, on: &str) -> Ask {
    let permits = [(SemaphoreName::parse(on).unwrap(), Count::ONE)];
    Ask::new(ExternalId::parse(id).unwrap(), permits).unwrap()
}

fn p50(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}

async fn acquire_p50(lockhouse: &Lockhouse, pauses_ms: Range<u64>) -> Duration {
    lockhouse.define("free", 1000).await.unwrap();
    let mut took = Vec::new();
    for i in 0..300 {
        if pauses_ms.end > 1 {
            sleep(Duration::from_millis(fastrand::u64(pauses_ms.clone()))).await;
        }
        let id = format!("free-{pauses_ms:?}-{i}");
        let begun = Instant::now();
        lockhouse.acquire(ask(&id, "free"), LONG).await.unwrap();
        took.push(begun.elapsed());
        lockhouse.release(&id).await.unwrap();
    }
    p50(took)
}

async fn handover_p50(
    from: &Lockhouse,
    to: &Lockhouse,
    on: &str,
    rounds: usize,
    held_ms: Range<u64>,
) -> Duration {
    from.define(on, 1).await.unwrap();
    let mut took = Vec::new();
    let mut last = format!("{on}-{}-first", held_ms.start);
    from.acquire(ask(&last, on), LONG).await.unwrap();
    for i in 0..rounds {
        let next = format!("{on}-{}-{i}", held_ms.start);
        let waiting = tokio::spawn({
            let (to, asked) = (to.clone(), ask(&next, on));
            async move {
                to.acquire(asked, LONG).await.unwrap();
                Instant::now()
            }
        });
        while to.status(on).await.unwrap().waiting == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(fastrand::u64(held_ms.clone()))).await;
        let begun = Instant::now();
        from.release(&last).await.unwrap();
        took.push(waiting.await.unwrap() - begun);
        last = next;
    }
    from.release(&last).await.unwrap();
    p50(took)
}

async fn hold(lockhouse: &Lockhouse, id: String, on: &str) -> u64 {
    let (request, _) = lockhouse.acquire(ask(&id, on), LONG).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    lockhouse.release(&id).await.unwrap();
    request.permits[0].fence
}

async fn rate_without_waiting(lockhouse: &Lockhouse) -> f64 {
    lockhouse.define("ten", 10).await.unwrap();
    let begun = Instant::now();
    join_all((0..10).map(|worker| async move {
        for i in 0..100 {
            hold(lockhouse, format!("ten-{worker}-{i}"), "ten").await;
        }
    }))
    .await;
    1000.0 / begun.elapsed().as_secs_f64()
}

async fn rate_of_a_line(lockhouse: &Lockhouse) -> f64 {
    lockhouse.define("line", 0).await.unwrap();
    lockhouse.define("line", 10).await.unwrap();
    let full = join_all((0..10).map(|i| async move {
        let asked = ask(&format!("full-{i}"), "line");
        lockhouse.acquire(asked, LONG).await.unwrap();
    }));
    full.await;
    // One task, so that they call in this order.
    let line = join_all((0..1000).map({
        let lockhouse = lockhouse.clone();
        move |i| {
            let lockhouse = lockhouse.clone();
            async move { hold(&lockhouse, format!("line-{i}"), "line").await }
        }
    }));
    let line = tokio::spawn(line);
    while lockhouse.status("line").await.unwrap().waiting < 1000 {
        sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    join_all((0..10).map(|i| lockhouse.release(format!("full-{i}")))).await;
    let fences = line.await.unwrap();
    let rate = 1000.0 / begun.elapsed().as_secs_f64();
    assert!(fences.is_sorted(), "served in the order in which they came");
    rate
}

async fn queries_of_a_line(lockhouse: &Lockhouse, url: &str) {
    lockhouse.define("full", 1).await.unwrap();
    lockhouse.acquire(ask("held", "full"), LONG).await.unwrap();
    let line: Vec<_> = (0..1000)
        .map(|i| {
            let lockhouse = lockhouse.clone();
            tokio::spawn(async move {
                lockhouse
                    .acquire(ask(&format!("waits-{i}"), "full"), LONG)
                    .await
            })
        })
        .collect();
    while lockhouse.status("full").await.unwrap().waiting < 1000 {
        sleep(Duration::from_millis(10)).await;
    }
    // PostgreSQL counts up to 10 s late what was done before.
    let soon = if url.starts_with("postgres") { 12 } else { 0 };
    for (after_s, for_s) in [(soon, 10), (5, 30)] {
        sleep(Duration::from_secs(after_s)).await;
        let before = statements(url).await;
        sleep(Duration::from_secs(for_s)).await;
        // Less the two that ask for the number.
        let asked = statements(url).await - before - 2;
        println!(
            "1,000 who wait: {:.1} queries/s over {for_s} s",
            asked as f64 / for_s as f64
        );
    }
    line.iter().for_each(tokio::task::JoinHandle::abort);
}
