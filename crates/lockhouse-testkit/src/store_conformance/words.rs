//! Short functions that make names, asks, commands and batches for the rules.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, FullStore, Page};
use lockhouse_core::{
    Ask, Capacity, Cause, Command, Count, Definition, ExternalId, Outcome, Owner, Reply, Request,
    SemaphoreName, SemaphoreRow, Ttl,
};
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep};

pub(super) type Store = Arc<dyn FullStore>;

/// A page limit above the number of rows of any rule.
pub(super) const ALL: u32 = 999;

/// An age or a TTL longer than any rule takes.
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// Long enough for a loaded machine. Nothing waits this long unless it is broken.
pub(super) const SOON: Duration = Duration::from_secs(60);

pub(super) fn name(text: &str) -> SemaphoreName {
    SemaphoreName::parse(text).unwrap()
}

pub(super) fn id(text: &str) -> ExternalId {
    ExternalId::parse(text).unwrap()
}

pub(super) fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

pub(super) fn define(semaphore: &str, capacity: u32) -> Command {
    let capacity = Capacity::new(capacity).unwrap();
    Command::Define(Definition::new(name(semaphore), capacity))
}

pub(super) fn delete(semaphore: &str) -> Command {
    let name = name(semaphore);
    Command::Delete { name }
}

/// An ask for one permit on each of `semaphores`, without an owner and without a TTL.
pub(super) fn acquire(external_id: &str, semaphores: &[&str]) -> Command {
    acquire_for(external_id, semaphores, None, None)
}

/// An [`acquire`] with an owner and a TTL, if they are given.
pub(super) fn acquire_for(
    external_id: &str,
    semaphores: &[&str],
    by: Option<&str>,
    ttl_ms: Option<u64>,
) -> Command {
    let permits = semaphores
        .iter()
        .map(|semaphore| (name(semaphore), Count::ONE));
    let mut ask = Ask::new(id(external_id), permits).unwrap();
    ask.owner = by.map(owner);
    ask.ttl = ttl_ms.map(|ms| Ttl::from_ms(ms).unwrap());
    Command::acquire(ask)
}

pub(super) fn release(external_id: &str) -> Command {
    Command::release(id(external_id))
}

pub(super) fn end(external_id: &str, cause: Cause) -> Command {
    let external_id = id(external_id);
    Command::End { external_id, cause }
}

pub(super) fn heartbeat(of: &str, ttl_ms: u64) -> Command {
    Command::Heartbeat {
        owner: owner(of),
        ttl: Ttl::from_ms(ttl_ms).unwrap(),
        must_exist: false,
    }
}

pub(super) fn goodbye(of: &str) -> Command {
    Command::Goodbye { owner: owner(of) }
}

/// The outcomes of one batch.
pub(super) async fn outcomes(store: &Store, commands: Vec<Command>) -> Vec<Outcome> {
    outcomes_of(store, &Batch::new(commands)).await
}

/// The outcomes of `batch`. Repeats the batch until its outcome is known, as an engine does.
pub(super) async fn outcomes_of(store: &Store, batch: &Batch) -> Vec<Outcome> {
    loop {
        match store.transact(batch).await {
            Ok(outcomes) => return outcomes,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

pub(super) async fn outcome(store: &Store, command: Command) -> Outcome {
    outcomes(store, vec![command]).await.remove(0)
}

/// Runs commands in one batch. None of them may be refused.
pub(super) async fn run(store: &Store, commands: impl IntoIterator<Item = Command>) {
    for outcome in outcomes(store, commands.into_iter().collect()).await {
        outcome.unwrap();
    }
}

/// How many of eight calls at once, on two stores, return true.
pub(super) async fn true_of_eight<F>(stores: &[Store; 2], call: impl Fn(Store) -> F) -> usize
where
    F: Future<Output = bool> + Send + 'static,
{
    let together = Arc::new(Barrier::new(8));
    let calls = (0..8).map(|number| {
        let call = call(Arc::clone(&stores[number % 2]));
        let together = Arc::clone(&together);
        tokio::spawn(async move {
            together.wait().await;
            call.await
        })
    });
    let mut are_true = 0;
    for call in calls.collect::<Vec<_>>() {
        are_true += usize::from(call.await.unwrap());
    }
    are_true
}

/// The request that `command` grants.
pub(super) async fn granted(store: &Store, command: Command) -> Request {
    match outcome(store, command).await.unwrap() {
        Reply::Granted { request, .. } => request,
        other => panic!("not granted: {other:?}"),
    }
}

/// Whether `command` ended the request that it names.
pub(super) async fn ends(store: &Store, command: Command) -> bool {
    match outcome(store, command).await.unwrap() {
        Reply::Ended { now, .. } => now,
        other => panic!("no end: {other:?}"),
    }
}

/// The request called `external_id`, which exists.
pub(super) async fn request(store: &Store, external_id: &str) -> Request {
    store.request(&id(external_id)).await.unwrap().unwrap()
}

/// The semaphore called `called`, which exists.
pub(super) async fn semaphore(store: &Store, called: &str) -> SemaphoreRow {
    store.semaphore(&name(called)).await.unwrap().unwrap()
}

/// The ids of requests, sorted.
pub(super) fn ids(requests: &[Request]) -> Vec<&str> {
    let mut ids: Vec<_> = requests
        .iter()
        .map(|request| request.external_id.as_str())
        .collect();
    ids.sort_unstable();
    ids
}

pub(super) fn first<K>(limit: u32) -> Page<K> {
    Page { after: None, limit }
}

/// A moment between two calls, from which ages are counted. It is a second after the call before it, and a second before
/// the next one. So an age that reaches a store up to a second late still lies between the two.
#[derive(Clone, Copy)]
pub(super) struct Between(Instant);

impl Between {
    pub(super) async fn calls() -> Self {
        sleep(Duration::from_secs(1)).await;
        let between = Self(Instant::now());
        sleep(Duration::from_secs(1)).await;
        between
    }

    /// How long ago the moment was.
    pub(super) fn age(&self) -> Duration {
        self.0.elapsed()
    }
}
