//! The engine on a store in memory, with usual clients, on one thread, so that the same calls meet in the same batches each
//! time.

use std::ops::Range;
use std::sync::Arc;

use lockhouse::Lockhouse;
use lockhouse::store::{Batch, FullStore, Store};
use lockhouse_core::{
    Capacity, Changes, Command, Count, Definition, EndReason, ExternalId, Grant, Reply, Request,
    SemaphoreName, SemaphoreRow, State, Timestamp, decide,
};
use lockhouse_stores::Memory;
use lockhouse_testkit::broken::{Broken, Sabotage};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::callgrind::counted_in_here;
use crate::work::{Slip, id};

const SLOTS: &str = "slots";

/// The pairs that are made among others.
const PAIRS_AMONG: usize = 200;

/// Makes `pairs` pairs with `clients` clients at once, on `permits` permits.
pub(super) fn clients(clients: usize, permits: u32, pairs: usize) -> usize {
    let definition = Definition::new(name(), Capacity::new(permits).unwrap());
    clients_on(definition, clients, pairs)
}

/// Makes them on a semaphore with slots, one for each client.
pub(super) fn slotted_clients(clients: usize, pairs: usize) -> usize {
    let capacity = Capacity::new(u32::try_from(clients).unwrap()).unwrap();
    let mut definition = Definition::new(name(), capacity);
    definition.slots = Some(true);
    clients_on(definition, clients, pairs)
}

fn clients_on(definition: Definition, clients: usize, pairs: usize) -> usize {
    let runtime = runtime();
    let memory = Arc::new(Memory::new());
    let define = Batch::new(vec![Command::Define(definition)]);
    let defined = runtime.block_on(memory.transact(&define)).unwrap();
    assert!(
        matches!(defined[..], [Ok(Reply::Defined { .. })]),
        "{defined:?}"
    );
    let lockhouse = Lockhouse::with_store(memory);
    let each = pairs / clients;
    let all = async {
        let mut at_work = JoinSet::new();
        for client in 0..clients {
            let ids = client * each..(client + 1) * each;
            at_work.spawn(make_pairs(lockhouse.clone(), ids));
        }
        at_work.join_all().await;
    };
    counted_in_here(|| runtime.block_on(all));
    each * clients
}

/// The requests that exist before.
pub(super) struct Among {
    held: usize,
    ended: usize,
}

impl Among {
    pub(super) fn none() -> Self {
        Self { held: 0, ended: 0 }
    }

    pub(super) fn many() -> Self {
        Self {
            held: 1_000,
            ended: 10_000,
        }
    }

    fn rows(&self) -> Vec<Request> {
        let ids = PAIRS_AMONG..PAIRS_AMONG + self.held + self.ended;
        let rows = ids.enumerate().map(|(n, id)| row(id, n < self.held));
        rows.collect()
    }
}

/// Makes pairs with one client, among the requests of others.
pub(super) fn one_client(among: Among, slip: Slip) -> usize {
    let runtime = runtime();
    let store = store(&runtime, &among, slip);
    let lockhouse = Lockhouse::with_store(store.clone());
    counted_in_here(|| runtime.block_on(make_pairs(lockhouse, 0..PAIRS_AMONG)));
    assert_eq!(held(&runtime, &*store), among.held);
    PAIRS_AMONG
}

async fn make_pairs(lockhouse: Lockhouse, ids: Range<usize>) {
    for n in ids {
        let ask = lockhouse.request_with_id(id(n)).permits(SLOTS, 1);
        let permit = ask.acquire().await.unwrap();
        permit.release().await.unwrap();
    }
}

/// A store that has those requests. Acquiring them one by one would take minutes.
fn store(runtime: &Runtime, among: &Among, slip: Slip) -> Arc<dyn FullStore> {
    let (rows, held) = (among.rows(), among.held);
    let memory = Arc::new(Memory::new());
    let definition = Definition::new(name(), Capacity::new(1_000_000).unwrap());
    let define = Batch::new(vec![Command::Define(definition)]);
    let defined = runtime.block_on(memory.transact(&define)).unwrap();
    let [Ok(Reply::Defined { semaphore, .. })] = &defined[..] else {
        panic!("{defined:?}")
    };
    let semaphore = SemaphoreRow {
        in_use: u32::try_from(held).unwrap(),
        fence: rows.len() as u64,
        ..semaphore.clone()
    };
    let summed = rows[..held].to_vec();
    memory.begin().save(Changes {
        semaphores: vec![semaphore],
        granted: rows,
        ..Changes::default()
    });
    if slip != Slip::SumsHeld {
        return memory;
    }
    let sabotage = Sabotage::new(true, move |loaded, commands| {
        let live = summed.iter().filter(|request| request.is_live());
        assert_eq!(live.count(), summed.len());
        decide(loaded, commands)
    });
    Arc::new(Broken::new(memory, sabotage))
}

fn row(n: usize, is_held: bool) -> Request {
    let at = Timestamp::UNIX_EPOCH;
    let ended = State::Released {
        reason: EndReason::Released,
        at,
    };
    Request {
        external_id: ExternalId::parse(id(n)).unwrap(),
        owner: None,
        state: if is_held { State::Acquired } else { ended },
        permits: vec![Grant {
            semaphore: name(),
            count: Count::ONE,
            fence: n as u64,
            slots: None,
        }],
        ttl: None,
        expires_at: None,
        finished_at: None,
        created_at: at,
        ended_by: None,
    }
}

/// How many permits are held, by a count of the rows.
fn held(runtime: &Runtime, store: &dyn FullStore) -> usize {
    let recounted = runtime.block_on(store.recount()).unwrap().semaphores;
    recounted.iter().map(|found| found.live as usize).sum()
}

fn name() -> SemaphoreName {
    SemaphoreName::parse(SLOTS).unwrap()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
