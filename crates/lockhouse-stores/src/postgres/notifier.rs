//! Notifications about releases in other processes, by LISTEN and NOTIFY.
//!
//! A notification is expensive for the server: transactions that notify commit one after another,
//! in all of its databases. So a process notifies only if another one waits for it. A hash of the
//! name assigns each semaphore to one of 256 slots, and each slot has an advisory lock:
//!
//! - A process with waiters listens on a separate connection. On it, it holds the locks of its
//!   semaphores' slots in shared mode.
//! - A transaction that is about to free permits tries to take the slot's lock exclusively until
//!   its commit. If it gets the lock, no process waits. If not, it notifies the slot.
//!
//! So no change is missed. A process that begins to wait gets the lock only after the transactions
//! that found it free have committed, and then polls once. The locks end with the connection.
//!
//! Notifications only make the next poll come sooner. If they fail, waiters go on polling, and the
//! listener is restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Freed, ProcessId, SemaphoreName};
use sqlx::Executor as _;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::PostgresServer;
use crate::sql::{Hosts, list};

/// The channel. Channels are local to a database.
const CHANNEL: &str = "lockhouse";

/// The first of the two keys of the locks: the letters `lock`, which other programs are unlikely to
/// use. The second key is the slot.
const LOCKS: u32 = 0x6c6f_636b;

/// How long the listener keeps a slot after the last waiter of the slot, and its connection after the last
/// waiter of this process. Short waits tend to come again.
const KEPT: Duration = Duration::from_secs(5);

/// How often the listener checks its connection, and releases slots that have no waiters.
const CHECKED_EVERY: Duration = Duration::from_secs(5);

/// The timeout of the listener's statements.
const ANSWER: Duration = Duration::from_secs(5);

/// The pause before a failed listener is restarted: the first, and the longest.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(30);

type Slot = u8;

/// A statement that notifies the processes that wait for `freed`. `None` if `freed` is empty.
///
/// The payload is the slot, and the process that the permits are left to, if any.
pub(super) fn notify(freed: &[Freed]) -> Option<String> {
    let all: BTreeSet<_> = freed
        .iter()
        .map(|freed| (slot(&freed.semaphore), freed.left_to))
        .collect();
    let payload = |(slot, left_to): &(Slot, Option<ProcessId>)| match left_to {
        None => format!("'{slot}'"),
        Some(process) => format!("'{slot} {process}'"),
    };
    let mut each = all.iter();
    let first = each.next()?;
    if all.len() == 1 {
        // A statement without FROM is cheaper for the server.
        return Some(format!(
            "SELECT pg_notify('{CHANNEL}',{}) WHERE NOT pg_try_advisory_xact_lock({LOCKS},{})",
            payload(first),
            first.0
        ));
    }
    let all = all
        .iter()
        .map(|one| format!("({},{})", one.0, payload(one)));
    Some(format!(
        "SELECT pg_notify('{CHANNEL}',told) FROM (VALUES {}) freed(slot,told) \
         WHERE NOT pg_try_advisory_xact_lock({LOCKS},slot)",
        list(all)
    ))
}

/// The slot of a notification for `process`, if it is for that process.
fn told(payload: &str, process: ProcessId) -> Option<Slot> {
    let (slot, left_to) = match payload.split_once(' ') {
        Some((slot, left_to)) => (slot, Some(left_to)),
        None => (payload, None),
    };
    let is_ours = left_to.is_none_or(|left_to| left_to == process.to_string());
    slot.parse().ok().filter(|_| is_ours)
}

/// FNV-1a: all versions must compute the same slot.
fn slot(name: &SemaphoreName) -> Slot {
    let hash = name.as_str().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.to_le_bytes()
        .into_iter()
        .fold(0, |slot, byte| slot ^ byte)
}

/// Notifies this process of releases in other processes.
pub struct Notifier {
    hosts: Arc<Hosts<PostgresServer>>,
    shared: Arc<Shared>,
}

/// State that waiters and the listener share.
#[derive(Default)]
struct Shared {
    state: Mutex<ListenerState>,
    /// Wakes the waiters.
    notified: Notify,
    /// Wakes the listener when the wanted slots change.
    wanted: Notify,
}

#[derive(Default)]
struct ListenerState {
    /// The slots to listen on, and until when.
    wanted: BTreeMap<Slot, Instant>,
    notified: BTreeSet<Slot>,
    /// The process that waits.
    process: ProcessId,
    is_listening: bool,
}

impl ListenerState {
    fn wanted_now(&mut self) -> BTreeSet<Slot> {
        let now = Instant::now();
        self.wanted.retain(|_, until| now < *until);
        self.wanted.keys().copied().collect()
    }
}

impl Notifier {
    pub(super) fn new(hosts: &Arc<Hosts<PostgresServer>>) -> Self {
        Self {
            hosts: Arc::clone(hosts),
            shared: Arc::default(),
        }
    }

    /// The semaphores among `on` that may have changed for `process`.
    pub(super) async fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> BTreeSet<SemaphoreName> {
        self.shared.state().process = process;
        loop {
            let mut notified = pin!(self.shared.notified.notified());
            notified.as_mut().enable();
            let changed = self.look(on);
            if !changed.is_empty() {
                return changed;
            }
            notified.await;
        }
    }

    /// The semaphores among `on` that were notified. Starts a listener for the others.
    fn look(&self, on: &BTreeSet<SemaphoreName>) -> BTreeSet<SemaphoreName> {
        let mut state = self.shared.state();
        let notified = std::mem::take(&mut state.notified);
        let until = Instant::now() + KEPT;
        for name in on {
            if state.wanted.insert(slot(name), until).is_none() {
                self.shared.wanted.notify_one();
            }
        }
        let begins = !std::mem::replace(&mut state.is_listening, true);
        drop(state);
        if begins {
            let listening = Listening {
                shared: Arc::clone(&self.shared),
                is_on: true,
            };
            // Spawned without holding the mutex: a runtime that shuts down drops the task at once,
            // and that drop locks the mutex.
            tokio::spawn(listening.go_on(Arc::clone(&self.hosts)));
        }
        let is_notified = |name: &&SemaphoreName| notified.contains(&slot(name));
        on.iter().filter(is_notified).cloned().collect()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.state().wanted.clear();
        self.shared.wanted.notify_one();
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ListenerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, slots: impl IntoIterator<Item = Slot>) {
        self.state().notified.extend(slots);
        self.notified.notify_waiters();
    }
}

/// The listening task. Dropping it lets another begin.
struct Listening {
    shared: Arc<Shared>,
    is_on: bool,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.is_on {
            self.shared.state().is_listening = false;
        }
    }
}

impl Listening {
    async fn go_on(mut self, hosts: Arc<Hosts<PostgresServer>>) {
        let mut pause = AGAIN;
        while !self.ends() {
            let begun = Instant::now();
            if let Err(error) = self.listen(&hosts.current().driver).await {
                tracing::warn!(%error, "no notifications of releases at other processes: they are polled instead");
                if begun.elapsed() > AGAIN_AT_MOST {
                    pause = AGAIN;
                }
                sleep(pause).await;
                pause = (pause * 2).min(AGAIN_AT_MOST);
            }
        }
    }

    /// Whether to end, since there is no slot to listen on. A later wait starts another listener.
    fn ends(&mut self) -> bool {
        let mut state = self.shared.state();
        if state.wanted_now().is_empty() {
            state.is_listening = false;
            self.is_on = false;
        }
        !self.is_on
    }

    /// Listens on a separate connection until there is no slot left.
    async fn listen(&self, options: &PgConnectOptions) -> Result<(), sqlx::Error> {
        // The driver listens on a connection of a pool only. This one has no other.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ANSWER)
            .connect_lazy_with(options.clone());
        let listened = self.listen_on(&pool).await;
        // Closed, so that the locks are released.
        let _ = timeout(ANSWER, pool.close()).await;
        listened
    }

    async fn listen_on(&self, pool: &sqlx::PgPool) -> Result<(), sqlx::Error> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.ignore_pool_close_event(true);
        // Treat a lost connection as an error, since its locks are lost too.
        listener.eager_reconnect(false);
        run(&mut listener, "SET lock_timeout='4s'").await?;
        run(&mut listener, &format!("LISTEN {CHANNEL}")).await?;
        let mut held = BTreeSet::new();
        let mut checked = Instant::now();
        loop {
            let wanted = self.shared.state().wanted_now();
            if wanted.is_empty() {
                return Ok(());
            }
            let new: Vec<_> = wanted.difference(&held).copied().collect();
            if !new.is_empty() {
                lock(&mut listener, "pg_advisory_lock_shared", &new).await?;
                self.shared.notify(new);
            }
            if checked.elapsed() >= CHECKED_EVERY {
                let old: Vec<_> = held.difference(&wanted).copied().collect();
                // Runs a statement even without slots, which checks the connection.
                lock(&mut listener, "pg_advisory_unlock_shared", &old).await?;
                checked = Instant::now();
                held = wanted;
            } else {
                held.extend(wanted);
            }
            tokio::select! {
                told = listener.try_recv() => {
                    let told = told?.ok_or_else(lost)?;
                    let process = self.shared.state().process;
                    self.shared.notify(self::told(told.payload(), process));
                }
                () = self.shared.wanted.notified() => {}
                () = sleep(CHECKED_EVERY) => {}
            }
        }
    }
}

async fn lock(listener: &mut PgListener, how: &str, slots: &[Slot]) -> Result<(), sqlx::Error> {
    let slots = list(slots);
    let script = format!("SELECT {how}({LOCKS},slot) FROM unnest(ARRAY[{slots}]::int[]) slot");
    run(listener, &script).await
}

async fn run(listener: &mut PgListener, sql: &str) -> Result<(), sqlx::Error> {
    match timeout(ANSWER, listener.execute(sql)).await {
        Ok(done) => done.map(drop),
        Err(_) => Err(lost()),
    }
}

fn lost() -> sqlx::Error {
    sqlx::Error::Protocol("the connection that listens was lost".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<SemaphoreName> {
        texts
            .iter()
            .map(|text| SemaphoreName::parse(text).unwrap())
            .collect()
    }

    /// Versions that run side by side must agree.
    #[test]
    fn a_name_has_the_same_slot_for_ever() {
        let slots: Vec<_> = names(&["backup-slots", "gpu", "ü"])
            .iter()
            .map(slot)
            .collect();
        assert_eq!(slots, [140, 152, 18]);
    }

    #[test]
    fn names_are_spread_over_all_slots() {
        let names = (0..2_000).map(|i| SemaphoreName::parse(format!("semaphore-{i}")).unwrap());
        let slots: BTreeSet<_> = names.map(|name| slot(&name)).collect();
        assert!(slots.len() > 250, "{}", slots.len());
    }

    #[test]
    fn nothing_freed_notifies_nothing() {
        assert_eq!(notify(&[]), None);
    }

    fn freed(texts: &[&str], left_to: Option<ProcessId>) -> Vec<Freed> {
        let names = names(texts).into_iter();
        names
            .map(|semaphore| Freed { semaphore, left_to })
            .collect()
    }

    #[test]
    fn semaphores_that_share_a_slot_are_notified_once() {
        let once = notify(&freed(&["gpu"], None));
        assert_eq!(notify(&freed(&["gpu", "gpu"], None)), once);
        let both = notify(&freed(&["gpu", "backup-slots"], None)).unwrap();
        assert!(both.contains("(140,'140'),(152,'152')"), "{both}");
    }

    /// P11.
    #[test]
    fn permits_left_to_a_process_notify_only_that_process() {
        let [one, other] = [ProcessId::new(1), ProcessId::new(u64::MAX)];
        let notify = notify(&freed(&["gpu"], Some(one))).unwrap();
        assert!(notify.contains("'152 0000000000000001'"), "{notify}");
        assert_eq!(told("152 0000000000000001", one), Some(152));
        assert_eq!(told("152 0000000000000001", other), None);
        assert_eq!(told("152", other), Some(152));
        assert_eq!(told("many", one), None);
    }
}
