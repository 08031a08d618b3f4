//! Asks that need a row which another transaction keeps locked, on a store whose rows a test can lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockhouse::{Ask, Code, Count, Error, ExternalId, Lockhouse, Request, SemaphoreName};
use lockhouse_core::store::{Batch, Error as StoreError, FullStore, Kind, Layer, Store};
use lockhouse_core::{Command, Footprint, Outcome, SemaphoreRow};
use lockhouse_stores::Memory;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const LONG: Duration = Duration::from_secs(60);

/// The longest time until a call is answered that can be.
const SOON: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Locking {
    memory: Memory,
    /// The semaphore whose row another transaction keeps locked from `begin` to `end`.
    locked: SemaphoreName,
    begin: Instant,
    end: Instant,
    /// How many lock waits of asks time out from now on, although their rows are free when the engine then looks at them.
    times_out: AtomicU32,
    /// How often the other semaphore was read.
    reads: AtomicU32,
}

impl Locking {
    /// A store with the semaphores `free` and `locked`. After a second `locked` is locked for `lasts`.
    async fn open(lasts: Duration) -> (Lockhouse, Arc<Self>) {
        let begin = Instant::now() + Duration::from_secs(1);
        let store = Arc::new(Self {
            memory: Memory::new(),
            locked: name("locked"),
            begin,
            end: begin + lasts,
            times_out: AtomicU32::new(0),
            reads: AtomicU32::new(0),
        });
        let lockhouse = Lockhouse::with_store(store.clone());
        for semaphore in ["locked", "free"] {
            lockhouse.define(semaphore, 1).await.unwrap();
        }
        (lockhouse, store)
    }

    fn locked_of(&self, rows: &Footprint) -> Footprint {
        let mut locked = Footprint::default();
        let is_locked = (self.begin..self.end).contains(&Instant::now());
        if is_locked && rows.semaphores.contains(&self.locked) {
            locked.semaphores = BTreeSet::from([self.locked.clone()]);
        }
        locked
    }
}

impl Layer for Locking {
    fn inner(&self) -> &dyn FullStore {
        &self.memory
    }

    async fn locked(&self, rows: &Footprint) -> Result<Footprint, StoreError> {
        Ok(self.locked_of(rows))
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, StoreError> {
        let reads = names.contains(&name("free"));
        self.reads.fetch_add(u32::from(reads), Ordering::SeqCst);
        self.memory.named(names).await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, StoreError> {
        let locked = self.locked_of(&batch.footprint);
        let asks = |command: &Command| command.ask().is_some();
        let is_alone = batch.commands.iter().all(|command| !is_end(command));
        let times_out = is_alone
            && batch.commands.iter().any(asks)
            && self
                .times_out
                .try_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
        if times_out || !locked.semaphores.is_empty() {
            sleep(Duration::from_millis(500)).await;
            let error = StoreError::new(Kind::Locked, "waited too long for a lock");
            return Err(error.while_locked(locked));
        }
        self.memory.transact(batch).await
    }
}

fn is_end(command: &Command) -> bool {
    matches!(command, Command::End { .. })
}

fn name(text: &str) -> SemaphoreName {
    SemaphoreName::parse(text).unwrap()
}

async fn acquire(
    lockhouse: &Lockhouse,
    id: &str,
    on: &str,
    wait: Duration,
) -> Result<(Request, bool), Error> {
    let id = ExternalId::parse(id).unwrap();
    let ask = Ask::new(id, [(name(on), Count::ONE)]).unwrap();
    lockhouse.acquire(ask, wait).await
}

/// A call that waits.
fn waits(
    lockhouse: &Lockhouse,
    id: &'static str,
    on: &'static str,
) -> JoinHandle<Result<(Request, bool), Error>> {
    let lockhouse = lockhouse.clone();
    tokio::spawn(async move { acquire(&lockhouse, id, on, LONG).await })
}

/// P5: the second call is answered with the grant of the first, though there is no room for both.
#[tokio::test(start_paused = true)]
async fn a_call_with_the_id_of_a_grant_is_answered_although_a_lock_wait_timed_out() {
    let (lockhouse, store) = Locking::open(Duration::ZERO).await;
    acquire(&lockhouse, "held", "free", Duration::ZERO)
        .await
        .unwrap();
    let calls = [(); 2].map(|()| waits(&lockhouse, "same", "free"));
    sleep(Duration::from_secs(2)).await;
    store.times_out.store(1, Ordering::SeqCst);
    lockhouse.release("held").await.unwrap();
    let mut granted = 0;
    for call in calls {
        let answered = timeout(SOON, call).await.expect("it is answered soon");
        granted += u32::from(answered.unwrap().unwrap().1);
    }
    assert_eq!(granted, 1);
    assert_eq!(store.times_out.load(Ordering::SeqCst), 0);
}

/// P11, P13: the waiter takes the permit as soon as the row and the permit are free.
#[tokio::test(start_paused = true)]
async fn an_ask_that_finds_no_room_in_a_locked_row_waits_in_line() {
    let (lockhouse, store) = Locking::open(Duration::from_secs(20)).await;
    acquire(&lockhouse, "held", "locked", Duration::ZERO)
        .await
        .unwrap();
    sleep(Duration::from_secs(2)).await;
    let waits = waits(&lockhouse, "waits", "locked");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(lockhouse.status("locked").await.unwrap().waiting, 1);
    let short = acquire(&lockhouse, "short", "locked", Duration::from_secs(3)).await;
    assert_eq!(short.unwrap_err().code(), Code::Exhausted);
    sleep(store.end - Instant::now()).await;
    lockhouse.release("held").await.unwrap();
    let granted = timeout(SOON, waits).await.expect("it is granted soon");
    assert!(granted.unwrap().unwrap().1);
}

/// P13: the engine reads whether there is room only for asks that need the locked row.
#[tokio::test(start_paused = true)]
async fn a_locked_row_costs_asks_for_others_no_read() {
    let (lockhouse, store) = Locking::open(Duration::from_secs(20)).await;
    sleep(Duration::from_secs(2)).await;
    let waits = waits(&lockhouse, "waits", "locked");
    sleep(Duration::from_secs(1)).await;
    for id in 0..5 {
        let id = format!("stranger-{id}");
        acquire(&lockhouse, &id, "free", LONG).await.unwrap();
        lockhouse.release(&id).await.unwrap();
    }
    assert_eq!(store.reads.load(Ordering::SeqCst), 0);
    sleep(store.end - Instant::now()).await;
    let granted = timeout(SOON, waits).await.expect("it is granted soon");
    assert!(granted.unwrap().unwrap().1);
}

/// P11: a waiter that came while the row was locked is in the line soon after.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_entered_in_the_line_soon_after_the_row_is_free() {
    let (lockhouse, store) = Locking::open(Duration::from_secs(20)).await;
    acquire(&lockhouse, "held", "locked", Duration::ZERO)
        .await
        .unwrap();
    sleep(Duration::from_secs(2)).await;
    let waits = waits(&lockhouse, "waits", "locked");
    sleep(store.end + SOON - Instant::now()).await;
    let locked = store.memory.semaphore(&name("locked")).await.unwrap();
    assert_eq!(locked.unwrap().line.entries().len(), 1);
    lockhouse.release("held").await.unwrap();
    assert!(waits.await.unwrap().unwrap().1);
}
