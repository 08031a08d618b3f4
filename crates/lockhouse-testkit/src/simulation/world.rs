//! The state that all servers of a run share: the store's rows, its clock, its locks, and the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockhouse::store::{Batch, Command, Error, FullStore, Outcome, Reply, Store};
use lockhouse::{EndReason, ExternalId, Permit, Request, SemaphoreName, Template, Timestamp};
use lockhouse_core::{Footprint, SemaphoreRow, TemplateDefinition};
use lockhouse_stores::Memory;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::answers::Answers;
use super::broken::{Break, Breaking};
use super::ledger::Ledger;
use super::turns::Turns;
use super::violation::{Check, Violation, ensure};
use crate::broken::Broken;

/// The beginning of every run, by the store's clock.
const BEGINNING_US: i64 = 1_800_000_000_000_000;

/// The store's clock: the runtime's clock, and the offset by which it was set.
#[derive(Debug)]
struct Clock {
    began: Instant,
    set_us: AtomicI64,
}

impl Clock {
    fn now(&self) -> Timestamp {
        let run_us = self.began.elapsed().as_micros() as i64;
        let set_us = self.set_us.load(Ordering::Relaxed);
        Timestamp::from_microsecond(BEGINNING_US + run_us + set_us).expect("within the century")
    }
}

/// A server's store, which is notified of freed permits.
pub(super) trait Listener: Send + Sync {
    fn notify(&self, freed: &BTreeSet<SemaphoreName>);
}

pub(super) struct World {
    clock: Arc<Clock>,
    /// The store of the servers, which may be broken on purpose.
    store: Box<dyn FullStore>,
    /// Its rows.
    pub(super) rows: Arc<Memory>,
    locks: Mutex<Locks>,
    /// How many calls hang.
    hanging: AtomicUsize,
    unlocked: Notify,
    notes: Mutex<Notes>,
    /// The stores to notify of freed permits.
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
    pub(super) is_quiet: bool,
    pub(super) breaks: Option<Break>,
}

/// The locks of transactions that hang.
#[derive(Debug, Default)]
struct Locks {
    last: u64,
    held: BTreeMap<u64, Footprint>,
}

/// The records of the run.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) ledger: Ledger,
    pub(super) turns: Turns,
    pub(super) violation: Option<Violation>,
    /// How often the clock was set.
    pub(super) jumps: u32,
    /// By how much it was set back in total.
    pub(super) set_back: Duration,
    pub(super) answers: Answers,
    /// Permits that the library renews, by their requests.
    pub(super) permits: BTreeMap<ExternalId, (Weak<Permit>, u32)>,
    log: Option<Vec<String>>,
    /// The ids that the library drew, in the order in which they came up.
    drawn: Vec<String>,
}

impl Notes {
    /// Writes a line. Ids that the library drew are replaced by names that are the same in every run.
    fn write(&mut self, mut line: String) {
        let is_of_id = |c: char| c.is_ascii_hexdigit() || c == '-';
        let words = line.split(|c| !is_of_id(c)).filter(|word| word.len() == 36);
        for word in words {
            if !self.drawn.iter().any(|drawn| drawn == word) {
                self.drawn.push(word.to_owned());
            }
        }
        for (number, drawn) in self.drawn.iter().enumerate() {
            if line.contains(drawn) {
                line = line.replace(drawn, &format!("drawn{number}"));
            }
        }
        if let Some(log) = &mut self.log {
            log.push(line);
        }
    }
}

impl World {
    pub(super) fn new(is_quiet: bool, breaks: Option<Break>, is_logged: bool) -> Arc<Self> {
        let clock = Arc::new(Clock {
            began: Instant::now(),
            set_us: AtomicI64::new(0),
        });
        let its_clock = Arc::clone(&clock);
        let rows = Arc::new(Memory::with_clock(move || its_clock.now()));
        let decided: Arc<dyn FullStore> = match breaks.and_then(Break::sabotage) {
            Some(sabotage) => Arc::new(Broken::new(Arc::clone(&rows), sabotage)),
            None => rows.clone(),
        };
        let notes = Notes {
            log: is_logged.then(Vec::new),
            ..Notes::default()
        };
        Arc::new(Self {
            clock,
            store: Box::new(Breaking::new(decided, breaks)),
            rows,
            locks: Mutex::default(),
            hanging: AtomicUsize::new(0),
            unlocked: Notify::new(),
            notes: Mutex::new(notes),
            listeners: Mutex::default(),
            is_quiet,
            breaks,
        })
    }

    pub(super) fn add_listener(&self, server: Arc<dyn Listener>) {
        self.listeners().push(Arc::downgrade(&server));
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<dyn Listener>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the clock.
    pub(super) fn jump(&self, ms: i64) {
        self.clock.set_us.fetch_add(ms * 1_000, Ordering::Relaxed);
        let now_us = self.elapsed_us();
        let mut notes = self.notes();
        notes.jumps += 1;
        if ms < 0 {
            notes.set_back += Duration::from_millis(ms.unsigned_abs());
        }
        notes.turns.jump(now_us);
    }

    /// Records that the server may be unable to work for so long.
    pub(super) fn is_away(&self, server: &str, ms: u64) {
        let now_us = self.elapsed_us();
        self.notes().turns.is_away(server, ms, now_us);
    }

    pub(super) fn store(&self) -> &dyn FullStore {
        &*self.store
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first violation.
    pub(super) fn found(&self, check: Check) {
        if let Err(violation) = check {
            self.log(|| format!("{}: {}", violation.promise, violation.text));
            self.notes().violation.get_or_insert(violation);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.notes().violation.is_some()
    }

    /// Writes a line to the log, if there is one.
    pub(super) fn log(&self, line: impl FnOnce() -> String) {
        let mut notes = self.notes();
        if notes.log.is_some() {
            let at = self.clock.began.elapsed();
            let line = format!("{:>12.6} s  {}", at.as_secs_f64(), line());
            notes.write(line);
        }
    }

    pub(super) fn take_log(&self) -> Vec<String> {
        self.notes().log.take().unwrap_or_default()
    }

    /// Commits a batch of `server`, and compares its result with the book. It takes no time.
    pub(super) async fn commit(&self, server: &str, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let outcomes = self.store.transact(batch).await?;
        for (command, outcome) in batch.commands.iter().zip(&outcomes) {
            self.log(|| format!("{server}: {}", Decided(command, outcome)));
        }
        let now = self.now();
        let now_us = self.elapsed_us();
        let entered = {
            let Notes { ledger, turns, .. } = &mut *self.notes();
            turns.observe(ledger, now_us);
            let entered = ledger.enter(batch, &outcomes, now);
            turns.observe(ledger, now_us);
            entered
        };
        match entered {
            Ok(ended) => {
                ended.iter().for_each(|id| self.is_known_to_be_lost(id));
                self.notify(batch, &ended);
            }
            Err(violation) => self.found(Err(violation)),
        }
        let (semaphores, requests) = self.rows_of(batch).await;
        let compared = self.notes().ledger.compare_rows(&semaphores, &requests);
        self.found(compared);
        self.look_at_waiters();
        Ok(outcomes)
    }

    pub(super) fn template_is_set(&self, definition: &TemplateDefinition, set: &(Template, bool)) {
        self.log(|| format!("template {}={}", definition.pattern, definition.capacity));
        let Ledger { commit, pools, .. } = &mut self.notes().ledger;
        let entered = pools.set_template(*commit, definition, set);
        self.found(entered);
    }

    pub(super) fn template_is_deleted(&self, there_was: bool) {
        self.log(|| format!("the template is deleted: {there_was}"));
        let Ledger { commit, pools, .. } = &mut self.notes().ledger;
        let entered = pools.delete_template(*commit, there_was);
        self.found(entered);
    }

    /// Notifies the servers of the semaphores that `batch`, which ended these requests, may have freed.
    fn notify(&self, batch: &Batch, ended: &[ExternalId]) {
        let mut freed = BTreeSet::new();
        for command in &batch.commands {
            if matches!(
                command,
                Command::Define(_) | Command::Delete { .. } | Command::Follow { .. }
            ) {
                freed.extend(command.semaphores().cloned());
            }
        }
        for grant in ended
            .iter()
            .filter_map(|id| self.notes().ledger.permits_of(id))
        {
            freed.extend(grant);
        }
        for server in self.listeners().iter().filter_map(Weak::upgrade) {
            server.notify(&freed);
        }
    }

    async fn rows_of(&self, batch: &Batch) -> RowsOf {
        let (mut semaphores, mut requests) = (Vec::new(), Vec::new());
        for name in &batch.footprint.semaphores {
            let row = self.rows.semaphore(name).await.expect("memory answers");
            semaphores.push((name.clone(), row));
        }
        for id in &batch.footprint.requests {
            let row = self.rows.request(id).await.expect("memory answers");
            requests.push((id.clone(), row));
        }
        (semaphores, requests)
    }

    /// Notes a permit, until it is dropped. The clock had been set `jumps` times when its caller asked.
    pub(super) fn keep(&self, permit: &Arc<Permit>, jumps: u32) {
        let mut notes = self.notes();
        let kept = (Arc::downgrade(permit), jumps);
        notes.permits.insert(permit.external_id().clone(), kept);
    }

    /// P8: a holder knows its permit to be lost by the time it expires. A holder whose permit another caller ended learns
    /// it later.
    fn is_known_to_be_lost(&self, id: &ExternalId) {
        let notes = self.notes();
        let ended = notes.ledger.grants.get(id).and_then(|grant| grant.ended);
        let is_by_time = ended.is_some_and(|(_, why)| why == EndReason::Expired);
        let held = notes
            .permits
            .get(id)
            .filter(|(_, jumps)| *jumps == notes.jumps);
        let permit = held
            .filter(|_| is_by_time)
            .and_then(|(permit, _)| permit.upgrade());
        drop(notes);
        let is_lost = permit.is_none_or(|permit| permit.is_lost());
        self.found(ensure(is_lost, "P8", || {
            format!("{id} has expired, and its holder takes it to be held")
        }));
    }

    /// How long the run has gone on, whatever the store's clock was set to.
    pub(super) fn elapsed_us(&self) -> i64 {
        self.clock.began.elapsed().as_micros() as i64
    }

    /// P10 and P11: no waiter that could be served waits.
    pub(super) fn look_at_waiters(&self) {
        if !self.is_quiet {
            return;
        }
        let now = self.now();
        let looked = {
            let Notes { ledger, turns, .. } = &mut *self.notes();
            turns.look(ledger, now)
        };
        self.found(looked);
    }

    /// Waits until no row of `batch` is locked, or as long as a store waits. Returns whether the rows are free.
    pub(super) async fn lock_wait(&self, batch: &Batch) -> bool {
        let free = async {
            loop {
                let unlocked = self.unlocked.notified();
                if self.locked(&batch.footprint).is_empty() {
                    return;
                }
                unlocked.await;
            }
        };
        tokio::time::timeout(Duration::from_millis(500), free)
            .await
            .is_ok()
    }

    /// The members of `rows` that hanging transactions lock.
    pub(super) fn locked(&self, rows: &Footprint) -> Footprint {
        let mut all = Footprint::default();
        for held in self.locks().held.values() {
            all.extend(held.clone());
        }
        all.intersect(rows);
        all
    }

    /// A slow part of a call, whose caller may go away meanwhile.
    pub(super) async fn hang(&self, until: Instant) {
        struct Hanging<'a>(&'a World);
        impl Drop for Hanging<'_> {
            fn drop(&mut self) {
                self.0.hanging.fetch_sub(1, Ordering::Relaxed);
                self.0.unlocked.notify_waiters();
            }
        }
        self.hanging.fetch_add(1, Ordering::Relaxed);
        let _hanging = Hanging(self);
        sleep_until(until).await;
    }

    /// Waits until no row is locked, and no call hangs.
    pub(super) async fn settled(&self) {
        loop {
            let unlocked = self.unlocked.notified();
            if self.locks().held.is_empty() && self.hanging.load(Ordering::Relaxed) == 0 {
                return;
            }
            unlocked.await;
        }
    }

    /// Locks the rows that `batch` touches. [`unlock`](Self::unlock) with the returned key frees them.
    pub(super) fn lock(&self, batch: &Batch) -> u64 {
        let mut locks = self.locks();
        locks.last += 1;
        let key = locks.last;
        locks.held.insert(key, batch.footprint.clone());
        drop(locks);
        self.notes().turns.lock(key, &batch.footprint);
        key
    }

    pub(super) fn unlock(&self, key: u64) {
        self.locks().held.remove(&key);
        let now_us = self.elapsed_us();
        self.notes().turns.unlock(key, now_us);
        self.unlocked.notify_waiters();
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type RowsOf = (
    Vec<(SemaphoreName, Option<SemaphoreRow>)>,
    Vec<(ExternalId, Option<Request>)>,
);

/// A command and its outcome, in a line.
struct Decided<'a>(&'a Command, &'a Outcome);

impl fmt::Display for Decided<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Command::Define(definition) => {
                write!(f, "define {}={}", definition.name, definition.capacity)?;
            }
            Command::Delete { name } => write!(f, "delete {name}")?,
            Command::Acquire { ask, .. } => {
                write!(f, "acquire {}", ask.external_id)?;
            }
            Command::Stand { name, stand } => write!(f, "look at {name}, {stand:?}")?,
            Command::Renew { external_id, .. } => write!(f, "renew {external_id}")?,
            Command::End { external_id, cause } => write!(f, "end {external_id}, {cause:?}")?,
            Command::Heartbeat { owner, .. } => write!(f, "heartbeat {owner}")?,
            Command::Goodbye { owner } => write!(f, "goodbye {owner}")?,
            other => write!(f, "{other:?}")?,
        }
        match self.1 {
            Ok(Reply::Granted { request, now, .. }) => {
                let when = if *now { "now" } else { "before" };
                let fences = request.permits.iter();
                let fences: Vec<_> = fences
                    .map(|p| {
                        let slots = p
                            .slots
                            .as_ref()
                            .map_or(String::new(), |s| format!(" slots {s:?}"));
                        format!("{}={} fence {}{slots}", p.semaphore, p.count, p.fence)
                    })
                    .collect();
                write!(f, ": granted {when}, {}", fences.join(", "))
            }
            Ok(Reply::Ended { request, now, .. }) => {
                write!(f, ": ended {:?}, now: {now}", request.end_reason())
            }
            Ok(Reply::Seen { semaphore: s, .. } | Reply::Defined { semaphore: s, .. }) => {
                write!(
                    f,
                    ": {} of {} in use, fence {}, line {}",
                    s.in_use, s.capacity, s.fence, s.line
                )
            }
            Ok(Reply::Renewed(request)) => write!(f, ": until {:?}", request.expires_at),
            Ok(Reply::Heard { session, began }) => {
                write!(f, ": until {}, began: {began}", session.expires_at)
            }
            Ok(other) => write!(f, ": {other:?}"),
            Err(refusal) => write!(f, ": {refusal}"),
        }
    }
}
