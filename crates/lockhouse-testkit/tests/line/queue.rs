//! Callers that wait, each at a separate engine.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lockhouse::{Ask, Count, ExternalId, Lockhouse, Priority, Request, SemaphoreName, Ttl};
use lockhouse_testkit::place::Place;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Longer than any test waits.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A waiter has been entered in the line after this time.
pub(crate) const REGISTERED: Duration = Duration::from_millis(400);

pub(crate) fn ask(id: &str, permits: &[(&str, u32)]) -> Ask {
    let permits = permits.iter().map(|(on, count)| {
        let name = SemaphoreName::parse(on).unwrap();
        (name, Count::new(*count).unwrap())
    });
    let mut ask = Ask::new(ExternalId::parse(id).unwrap(), permits).unwrap();
    ask.ttl = Some(Ttl::new(LONG).unwrap());
    ask
}

pub(crate) fn preferred(mut ask: Ask, priority: i32) -> Ask {
    ask.priority = Priority::new(priority).unwrap();
    ask
}

pub(crate) async fn hold(lockhouse: &Lockhouse, id: &str, permits: &[(&str, u32)]) {
    let granted = lockhouse.acquire(ask(id, permits), Duration::ZERO).await;
    granted.unwrap();
}

/// Free permits are left to the next process of a line for 700 ms. This is less, as the store's clock measures that from the
/// commit on.
const LEFT_FOR: Duration = Duration::from_millis(600);

/// The order of grants, with their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served(Arc<Mutex<Vec<(String, Instant)>>>);

impl Served {
    /// Waits at `lockhouse`, takes note of the grant, and releases after `held`.
    pub(crate) fn waits(&self, lockhouse: &Lockhouse, ask: Ask, held: Duration) -> Waiter {
        let (lockhouse, served) = (lockhouse.clone(), Arc::clone(&self.0));
        Waiter(tokio::spawn(async move {
            let (request, _) = lockhouse.acquire(ask, LONG).await.unwrap();
            let granted = Instant::now();
            let id = request.external_id.to_string();
            served.lock().unwrap().push((id, granted));
            sleep(held).await;
            let released = lockhouse.release(request.external_id.as_str()).await;
            released.unwrap();
            (request, granted)
        }))
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Asserts that the requests were granted in the order of `expected`, from `since` on. A waiter may have been passed over if
    /// its process did not claim the permit in time, as happens on a busy machine.
    pub(crate) fn in_order<T: AsRef<str>>(&self, mut since: Instant, expected: &[T]) {
        let granted = self.0.lock().unwrap();
        let mut left: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
        for (id, at) in granted.iter() {
            let ahead = left.iter().position(|next| next == id);
            let ahead = ahead.unwrap_or_else(|| panic!("{id} is not expected: {granted:?}"));
            let free_for = at.saturating_duration_since(since);
            assert!(
                ahead == 0 || free_for >= LEFT_FOR,
                "{id} went ahead of {:?} after {free_for:?}: {granted:?}",
                &left[..ahead]
            );
            left.remove(ahead);
            since = *at;
        }
        assert!(left.is_empty(), "{left:?} were not granted: {granted:?}");
    }
}

pub(crate) struct Waiter(JoinHandle<(Request, Instant)>);

impl Waiter {
    /// Waits for the release. Returns the time of the grant.
    pub(crate) async fn granted(self) -> Instant {
        self.0.await.unwrap().1
    }
}

/// A caller that waits at an engine with its own runtime. Dropping it ends the runtime abruptly, like a killed process.
pub(crate) struct Doomed {
    _ends: oneshot::Sender<()>,
}

impl Doomed {
    pub(crate) fn waits(lockhouse: Lockhouse, id: String) -> Self {
        let (ends, ended) = oneshot::channel::<()>();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let waits = tokio::spawn(async move {
                    let granted = lockhouse.acquire(ask(&id, &[("s", 1)]), LONG).await;
                    panic!("{granted:?}, and it should have died before");
                });
                // The runtime is dropped during the call, which therefore gets no answer.
                let _ = ended.await;
                drop(waits);
            });
            runtime.shutdown_background();
        });
        Self { _ends: ends }
    }
}

/// Waits until a process without waiters sees `waiting` callers wait for `name`.
pub(crate) async fn until_waiting(place: &Place, name: &str, waiting: u32) {
    let observer = place.client().await;
    let begun = Instant::now();
    loop {
        let seen = observer.status(name).await.unwrap().waiting;
        if seen == waiting {
            return;
        }
        let late = Duration::from_secs(20);
        assert!(
            begun.elapsed() < late,
            "{seen} wait for {name}, not {waiting}"
        );
        sleep(Duration::from_millis(20)).await;
    }
}
