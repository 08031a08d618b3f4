//! Releases under way, so that a later ask without a wait comes after them.
//!
//! A release gets a ticket, which is a rising number, and is listed under each of its semaphores
//! until it is answered. An ask without a wait waits until all releases of its semaphores are
//! answered that had a ticket when it began. While no release is under way it only reads one
//! number.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long an ask waits for releases at most.
const PATIENCE: Duration = Duration::from_millis(400);

/// The releases of one client and its clones that are under way.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    under_way: AtomicUsize,
    tickets: Mutex<OpenReleases>,
}

#[derive(Debug, Default)]
struct OpenReleases {
    next: u64,
    /// Tickets that are not yet answered. A semaphore without any has no entry.
    open: HashMap<SemaphoreName, watch::Sender<BTreeSet<u64>>>,
}

/// A release under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    returning: Arc<Returning>,
    semaphores: Vec<SemaphoreName>,
    ticket: u64,
}

impl Returning {
    /// Records that a release of permits of `semaphores` begins.
    pub(crate) fn begin(
        self: &Arc<Self>,
        semaphores: impl IntoIterator<Item = SemaphoreName>,
    ) -> UnderWay {
        let semaphores = Vec::from_iter(semaphores);
        let mut tickets = self.tickets();
        let ticket = tickets.next;
        tickets.next += 1;
        for semaphore in &semaphores {
            let open = tickets.open.entry(semaphore.clone()).or_default();
            open.send_if_modified(|open| {
                open.insert(ticket);
                false
            });
        }
        // Under the lock, so that it is never less than what `settle` finds there.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay {
            returning: Arc::clone(self),
            semaphores,
            ticket,
        }
    }

    /// Waits until the releases of permits of `semaphores` that began before are answered, for
    /// 0.4 s at most.
    pub(crate) async fn settle<'a>(&self, semaphores: impl IntoIterator<Item = &'a SemaphoreName>) {
        // A caller that knows of an earlier release has seen its count.
        if self.under_way.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (mark, open) = self.open(semaphores);
        let settled = async {
            for mut open in open {
                // An error says that none is left.
                let _ = open
                    .wait_for(|open| open.first().is_none_or(|first| *first >= mark))
                    .await;
            }
        };
        let _ = timeout(PATIENCE, settled).await;
    }

    /// The tickets of `semaphores`, and the first that is not yet given out.
    fn open<'a>(
        &self,
        semaphores: impl IntoIterator<Item = &'a SemaphoreName>,
    ) -> (u64, Vec<watch::Receiver<BTreeSet<u64>>>) {
        let tickets = self.tickets();
        let open = semaphores
            .into_iter()
            .filter_map(|semaphore| tickets.open.get(semaphore));
        (tickets.next, open.map(watch::Sender::subscribe).collect())
    }

    fn tickets(&self) -> MutexGuard<'_, OpenReleases> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut tickets = self.returning.tickets();
        for semaphore in &self.semaphores {
            let Some(open) = tickets.open.get(semaphore) else {
                continue;
            };
            let mut is_empty = false;
            open.send_if_modified(|open| {
                let was_first = open.first() == Some(&self.ticket);
                open.remove(&self.ticket);
                is_empty = open.is_empty();
                was_first
            });
            if is_empty {
                tickets.open.remove(semaphore);
            }
        }
        self.returning.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn name(name: &str) -> SemaphoreName {
        SemaphoreName::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn only_earlier_releases_of_the_same_semaphores_are_waited_for() {
        let returning = Arc::new(Returning::default());
        let (a, b) = (name("a"), name("b"));
        let begun = Instant::now();
        let earlier = returning.begin([a.clone(), b.clone()]);
        returning.settle([&name("c")]).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let settled = tokio::spawn({
            let (returning, a) = (Arc::clone(&returning), a.clone());
            async move { returning.settle([&a]).await }
        });
        tokio::task::yield_now().await;
        let later = returning.begin([a.clone()]);
        assert!(!settled.is_finished());
        drop(earlier);
        settled.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop(later);
        assert!(returning.tickets().open.is_empty());
        assert_eq!(returning.under_way.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_without_an_answer_is_waited_for_briefly() {
        let returning = Arc::new(Returning::default());
        let a = name("a");
        let _unanswered = returning.begin([a.clone()]);
        let begun = Instant::now();
        returning.settle([&a]).await;
        assert_eq!(begun.elapsed(), PATIENCE);
    }
}
