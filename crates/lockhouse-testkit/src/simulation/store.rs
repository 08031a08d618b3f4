//! The connection of one server to the store, which is slow and sometimes fails.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse::store::{Batch, Call, Command, Error, FullStore, Kind, Layer, Outcome, Purge};
use lockhouse::{Pattern, SemaphoreName, Template};
use lockhouse_core::{Footprint, ProcessId, TemplateDefinition};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::broken::Break;
use super::broken::line::{hide_origins, lose_wake};
use super::plan::Fault;
use super::world::{Listener, World};

/// How long a transaction waits for a lock.
const LOCK_WAIT_MS: u64 = 500;

/// The longest that a call without an answer takes. A store's contract allows 10 s.
const SILENCE: Duration = Duration::from_millis(9_900);

pub(super) struct Faulty {
    pub(super) name: String,
    world: Arc<World>,
    slow_ms: u64,
    notifies: bool,
    wire: Mutex<Wire>,
    notification: Notify,
    is_dead: AtomicBool,
}

#[derive(Default)]
struct Wire {
    faults: VecDeque<Fault>,
    read_faults: VecDeque<Fault>,
    /// Until when nothing gets through, and whether calls hang meanwhile instead of failing.
    cut: Option<(Instant, bool)>,
    /// Until when the process is stopped.
    stopped: Option<Instant>,
    /// Freed semaphores that were not notified yet.
    freed: BTreeSet<SemaphoreName>,
}

impl Listener for Faulty {
    /// A commit may have freed these semaphores.
    fn notify(&self, freed: &BTreeSet<SemaphoreName>) {
        // A notification may be lost.
        if self.notifies
            && !freed.is_empty()
            && self.cut_until().is_none()
            && fastrand::u32(0..8) > 0
        {
            self.wire().freed.extend(freed.iter().cloned());
            self.notification.notify_one();
        }
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.name).finish()
    }
}

impl Faulty {
    pub(super) fn new(name: String, world: &Arc<World>, slow_ms: u64, notifies: bool) -> Arc<Self> {
        Arc::new(Self {
            name,
            world: Arc::clone(world),
            slow_ms,
            notifies,
            wire: Mutex::default(),
            notification: Notify::new(),
            is_dead: AtomicBool::new(false),
        })
    }

    pub(super) fn befall(&self, fault: Fault) {
        self.wire().faults.push_back(fault);
    }

    pub(super) fn befall_read(&self, fault: Fault) {
        self.wire().read_faults.push_back(fault);
    }

    pub(super) fn cut(&self, ms: u64, is_silent: bool) {
        let until = Instant::now() + Duration::from_millis(ms);
        self.wire().cut = Some((until, is_silent));
        self.world.is_away(&self.name, ms);
    }

    pub(super) fn stop(&self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        self.wire().stopped = Some(until);
        self.world.is_away(&self.name, ms);
    }

    /// From now on, calls under way get no answer, and new calls are not sent.
    pub(super) fn die(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    /// Ends all faults of this connection.
    pub(super) fn calm(&self) {
        *self.wire() = Wire::default();
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut_until(&self) -> Option<(Instant, bool)> {
        self.wire().cut.filter(|(until, _)| Instant::now() < *until)
    }

    /// Half of a call's way. It never ends for a dead server.
    async fn way(&self) {
        match fastrand::u64(0..=self.slow_ms) {
            0 if fastrand::bool() => yield_now().await,
            0 => {}
            ms => sleep(Duration::from_millis(ms)).await,
        }
        let stopped = self.wire().stopped;
        if let Some(until) = stopped.filter(|until| Instant::now() < *until) {
            self.world.hang(until).await;
        }
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }

    /// Fails if the store can't be reached, at once or after a while.
    async fn reach(&self) -> Result<(), Error> {
        self.way().await;
        let Some((until, is_silent)) = self.cut_until() else {
            return Ok(());
        };
        if is_silent {
            self.world.hang(until.min(Instant::now() + SILENCE)).await;
        }
        Err(Error::new(Kind::Unavailable, "cut off"))
    }

    /// The fault of a call that began at `begun`. A call that was delayed before has none, so that no call takes longer than a
    /// store's contract allows.
    fn next_fault(
        &self,
        begun: Instant,
        faults: impl Fn(&mut Wire) -> &mut VecDeque<Fault>,
    ) -> Option<Fault> {
        match begun.elapsed() <= Duration::from_millis(2 * LOCK_WAIT_MS) {
            true => faults(&mut self.wire()).pop_front(),
            false => None,
        }
    }

    async fn hang(&self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        self.world.hang(until).await;
    }

    async fn read<T>(&self, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let begun = Instant::now();
        self.reach().await?;
        let fault = self.next_fault(begun, |wire| &mut wire.read_faults);
        if let Some(fault) = &fault {
            self.world.is_away(&self.name, fault.lasts_ms());
        }
        match fault {
            None => {}
            Some(Fault::Slow { ms } | Fault::AppliedLate { ms }) => {
                self.hang(ms / 2).await;
                let read = read.await;
                self.hang(ms / 2).await;
                self.way().await;
                return read;
            }
            Some(Fault::Stuck { ms, .. }) => {
                self.hang(ms).await;
                return Err(Error::new(Kind::Unavailable, "a read was stuck"));
            }
            Some(_) => return Err(Error::new(Kind::Unavailable, "a read failed")),
        }
        let read = read.await;
        self.way().await;
        match self.cut_until() {
            Some(_) => Err(Error::new(Kind::Unavailable, "cut off from a reply")),
            None => read,
        }
    }

    async fn apply(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = self.world.commit(&self.name, batch).await?;
        match self.world.breaks {
            Some(Break::LosesWake) => lose_wake(&batch.commands, &mut outcomes),
            Some(Break::ReservesWithoutKey) => hide_origins(&mut outcomes),
            _ => {}
        }
        Ok(outcomes)
    }

    /// Starts a transaction that has its locks, and is applied after `ms` or not at all, whether or not its caller still
    /// waits for it.
    fn leave_behind(&self, batch: &Batch, ms: u64, is_applied: bool) {
        let (world, name, batch) = (Arc::clone(&self.world), self.name.clone(), batch.clone());
        let key = world.lock(&batch);
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            if is_applied {
                // No caller gets the answer.
                let _ = world.commit(&name, &batch).await;
            }
            world.unlock(key);
        });
    }

    /// Callers that end these requests may get a wrong `now`, since the decision of a lost batch is
    /// not known.
    fn lose(&self, batch: &Batch) -> Error {
        let ends = |command: &&Command| matches!(command, Command::End { .. });
        let ids = batch.commands.iter().filter(ends);
        let ids = ids.filter_map(Command::external_id).cloned();
        self.world.notes().answers.lose_ends(ids);
        lost()
    }

    async fn befallen(&self, fault: Fault, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        match fault {
            Fault::Before(kind) => Err(Error::new(kind, "an injected fault")),
            Fault::ReplyLost => {
                let decided = self.apply(batch).await?;
                self.way().await;
                Err(lost().after_deciding(decided))
            }
            Fault::CommitLost => Err(self.lose(batch)),
            Fault::AppliedLate { ms } => {
                self.leave_behind(batch, ms, true);
                Err(self.lose(batch))
            }
            Fault::Stuck { ms, is_applied } => {
                let lost = self.lose(batch);
                self.leave_behind(batch, ms, is_applied);
                self.hang(ms).await;
                Err(lost)
            }
            Fault::Slow { ms } => {
                self.hang(ms / 2).await;
                let outcomes = self.apply(batch).await;
                self.hang(ms / 2).await;
                outcomes
            }
        }
    }
}

fn lost() -> Error {
    Error::new(Kind::Unknown, "the reply was lost")
}

impl Layer for Faulty {
    fn inner(&self) -> &dyn FullStore {
        self.world.store()
    }

    async fn around<T: Send>(
        &self,
        _: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.read(answer).await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let begun = Instant::now();
        self.reach().await?;
        if !self.world.locked(&batch.footprint).is_empty() {
            self.world.is_away(&self.name, LOCK_WAIT_MS);
        }
        if !self.world.lock_wait(batch).await {
            let locked = self.world.locked(&batch.footprint);
            let error = Error::new(Kind::Locked, "waited too long for a lock");
            return Err(error.while_locked(locked));
        }
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending().await
        }
        let fault = self.next_fault(begun, |wire| &mut wire.faults);
        if let Some(fault) = &fault {
            self.world.log(|| format!("{}: {fault}", self.name));
            self.world.is_away(&self.name, fault.lasts_ms());
        }
        let outcomes = match fault {
            Some(fault) => self.befallen(fault, batch).await?,
            None => self.apply(batch).await?,
        };
        self.way().await;
        match self.cut_until() {
            Some(_) => Err(lost().after_deciding(outcomes)),
            None => Ok(outcomes),
        }
    }

    async fn changed(&self, on: &BTreeSet<SemaphoreName>, _: ProcessId) -> BTreeSet<SemaphoreName> {
        loop {
            let freed = std::mem::take(&mut self.wire().freed);
            let freed: BTreeSet<_> = freed.intersection(on).cloned().collect();
            if !freed.is_empty() {
                return freed;
            }
            self.notification.notified().await;
        }
    }

    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error> {
        Ok(self.world.locked(rows))
    }

    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        let defined = self.world.store().define_template(definition).await?;
        self.world.template_is_set(definition, &defined);
        Ok(defined)
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let there_was = self.world.store().delete_template(pattern).await?;
        self.world.template_is_deleted(there_was);
        Ok(there_was)
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        let purged = self.world.store().purge(what, limit).await;
        if let Purge::Sessions { age } = what {
            let now = self.world.now();
            self.world.notes().ledger.purge_sessions(age, now);
        }
        purged
    }
}
