//! How many instructions the core and the engine take, under valgrind. Times differ from run to run;
//! these don't, so each has a most, about a fifth above what it was when that was set. Whoever makes
//! something cheaper lowers it; whoever raises it says why in the commit.
//!
//! `cargo bench -p lockhouse-bench` takes valgrind, and `cargo install gungraun-runner` of the same
//! version as the library.

#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use lockhouse::{Lockhouse, RequestPermit};
use lockhouse_core::{
    Ask, Capacity, Cause, Command, Count, Decision, ExternalId, Loaded, Request, Semaphore,
    SemaphoreName, State, Timestamp, decide,
};
use tokio::runtime::{Builder, Runtime};

/// Commands in a batch.
const BATCH: u64 = 256;

/// Clients on the engine, and how often each acquires and releases.
const CLIENTS: u64 = 64;
const PAIRS: u64 = 8;

fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

fn name(number: u64) -> SemaphoreName {
    SemaphoreName::parse(format!("bench-{number}")).unwrap()
}

fn external_id(number: u64) -> ExternalId {
    ExternalId::parse(format!("job-{number:08}")).unwrap()
}

fn ask(number: u64, semaphores: u64) -> Ask {
    let permits = (0..semaphores).map(|i| (name(i), Count::ONE));
    Ask::new(external_id(number), permits).unwrap()
}

/// So many semaphores, and nothing held.
fn loaded(semaphores: u64) -> Loaded {
    let now = Timestamp::from_second(1_750_000_000).unwrap();
    let semaphore = |number| Semaphore {
        name: name(number),
        capacity: Capacity::new(1_000_000).unwrap(),
        in_use: 0,
        fence: 0,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    let semaphores = (0..semaphores).map(|number| (name(number), semaphore(number)));
    Loaded {
        now,
        semaphores: semaphores.collect(),
        requests: BTreeMap::new(),
        owners: BTreeMap::new(),
    }
}

fn acquires(semaphores: u64) -> (Loaded, Vec<Command>) {
    let commands = (0..BATCH).map(|number| Command::Acquire(ask(number, semaphores)));
    (loaded(semaphores), commands.collect())
}

fn releases() -> (Loaded, Vec<Command>) {
    let mut loaded = loaded(1);
    for number in 0..BATCH {
        let request = Request {
            external_id: external_id(number),
            owner: None,
            state: State::Acquired,
            permits: vec![RequestPermit {
                semaphore: name(0),
                count: Count::ONE,
                fence: number,
            }],
            ttl: None,
            expires_at: None,
            created_at: loaded.now,
            ended_by: None,
        };
        loaded.requests.insert(external_id(number), request);
    }
    for semaphore in loaded.semaphores.values_mut() {
        semaphore.in_use = BATCH as u32;
    }
    let commands = (0..BATCH).map(|number| Command::End {
        external_id: external_id(number),
        cause: Cause::Released,
    });
    (loaded, commands.collect())
}

#[library_benchmark(config = at_most(1))]
#[bench::on_one_semaphore(acquires(1))]
fn decide_acquires((loaded, commands): (Loaded, Vec<Command>)) -> Decision {
    decide(black_box(loaded), black_box(&commands))
}

#[library_benchmark(config = at_most(1))]
#[bench::on_three_semaphores(acquires(3))]
fn decide_asks_on_three((loaded, commands): (Loaded, Vec<Command>)) -> Decision {
    decide(black_box(loaded), black_box(&commands))
}

#[library_benchmark(config = at_most(1))]
#[bench::on_one_semaphore(releases())]
fn decide_releases((loaded, commands): (Loaded, Vec<Command>)) -> Decision {
    decide(black_box(loaded), black_box(&commands))
}

/// An engine on the memory store, on one thread.
fn engine(semaphores: u64) -> (Runtime, Lockhouse) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let lockhouse = runtime.block_on(async {
        let lockhouse = Lockhouse::connect("memory:").await.unwrap();
        for number in 0..semaphores {
            lockhouse.define(name(number), 1_000_000).await.unwrap();
        }
        lockhouse
    });
    (runtime, lockhouse)
}

#[library_benchmark(config = at_most(1))]
#[bench::on_one_semaphore(engine(1))]
fn engine_pairs((runtime, lockhouse): (Runtime, Lockhouse)) {
    runtime.block_on(load(lockhouse));
}

async fn load(lockhouse: Lockhouse) {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let lockhouse = lockhouse.clone();
        clients.spawn(async move {
            for pair in 0..PAIRS {
                let ask = ask(client * PAIRS + pair, 1);
                let id = ask.external_id.clone();
                lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
                lockhouse.release(&id).await.unwrap();
            }
        });
    }
    clients.join_all().await;
}

library_benchmark_group!(
    name = instructions,
    benchmarks = [
        decide_acquires,
        decide_asks_on_three,
        decide_releases,
        engine_pairs
    ]
);

main!(library_benchmark_groups = instructions);
