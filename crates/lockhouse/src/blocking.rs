//! The library for programs without async: the same calls, that wait for their answer.
//!
//! A [`Lockhouse`] here has a thread of its own, on which permits are renewed while the program
//! does its work. What has no call of its own here, [`wait`](Lockhouse::wait) calls.
//!
//! ```
//! # fn main() -> Result<(), lockhouse::Error> {
//! use std::time::Duration;
//! use lockhouse::blocking::Lockhouse;
//!
//! let lockhouse = Lockhouse::connect("memory:")?;
//! lockhouse.define("backup-slots", 10)?;
//!
//! let permit = lockhouse.semaphore("backup-slots").acquire()?;
//! println!("backing up under fence {}", permit.fence("backup-slots"));
//! assert!(!permit.is_lost());
//! permit.release()?;
//!
//! let ask = lockhouse.request_with_id("job-abc-123", |ask| {
//!     ask.permits("backup-slots", 2).wait(Duration::from_secs(30))
//! });
//! let permit = ask.acquire()?;
//! let holders = lockhouse.wait(async |lockhouse| lockhouse.holders(None, None, 10).await)?;
//! assert_eq!(holders.requests[0].external_id, *permit.external_id());
//! # Ok(())
//! # }
//! ```
//!
//! Dropping a permit releases it before `drop` returns, so that whoever asks next finds the room. If
//! the store does not answer within 11 s, `drop` returns and the release is tried again in the
//! background; until the store answers, later drops do not wait for it. Dropping the last of a
//! [`Lockhouse`], its clones and its permits waits for what is left of that, again for 11 s at most.
//!
//! # Panics
//! Every call that waits panics in async code, where it would hold up other tasks. A drop does not
//! panic there. It blocks the thread until the store answers, for 2 s at most.

use std::sync::{Arc, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockhouse_core::ExternalId;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::background::PATIENCE;
use crate::{Error, Lost, Released, Request, RequestBuilder, SemaphoreStatus};

/// How long a drop waits where a runtime may run on the same thread, and its tasks wait with it.
const PATIENCE_IN_A_RUNTIME: Duration = Duration::from_secs(2);

/// A way to semaphores; see [`crate::Lockhouse`]. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Lockhouse {
    lockhouse: crate::Lockhouse,
    runtime: Arc<Runtime>,
}

/// A thread that runs what goes on in the background. Ends when it is dropped, and all that was
/// dropped before is given back.
#[derive(Debug)]
struct Runtime {
    handle: Handle,
    /// The last release that the store did not answer in time, if it has answered nothing since.
    unanswered: std::sync::Mutex<Option<mpsc::Receiver<()>>>,
    closing: Option<(crate::Lockhouse, oneshot::Sender<crate::Lockhouse>)>,
    thread: Option<JoinHandle<()>>,
}

impl Lockhouse {
    /// Connects to where the permits live: see [`crate::Lockhouse::connect`].
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`; `internal` if no thread can be started.
    pub fn connect(url: impl AsRef<str>) -> Result<Self, Error> {
        let no_thread = |error| Error::Internal(format!("no thread can be started: {error}"));
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let lockhouse = runtime.block_on(crate::Lockhouse::connect(url))?;
        let (close, closing) = oneshot::channel::<crate::Lockhouse>();
        let thread = thread::Builder::new().name("lockhouse".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                if let Ok(lockhouse) = closing.await {
                    lockhouse.close().await;
                }
            });
        });
        let runtime = Runtime {
            handle,
            unanswered: std::sync::Mutex::default(),
            closing: Some((lockhouse.clone(), close)),
            thread: Some(thread.map_err(no_thread)?),
        };
        Ok(Self {
            lockhouse,
            runtime: Arc::new(runtime),
        })
    }

    /// Does `call`, and waits for its answer.
    pub fn wait<T>(&self, call: impl AsyncFnOnce(&crate::Lockhouse) -> T) -> T {
        self.runtime.handle.block_on(call(&self.lockhouse))
    }

    fn hold(
        &self,
        acquire: impl AsyncFnOnce(&crate::Lockhouse) -> Result<crate::Permit, Error>,
    ) -> Result<Permit, Error> {
        let permit = self.wait(acquire)?;
        *self.runtime.unanswered() = None;
        Ok(Permit {
            permit: Some(permit),
            lockhouse: self.clone(),
        })
    }

    /// Creates or resizes a semaphore: see [`crate::Lockhouse::define`].
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`.
    pub fn define(&self, name: &str, capacity: u32) -> Result<SemaphoreStatus, Error> {
        self.wait(async |lockhouse| lockhouse.define(name, capacity).await)
    }

    /// A handle on a semaphore: see [`crate::Semaphore`].
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore {
            semaphore: self.lockhouse.semaphore(name),
            lockhouse: self.clone(),
        }
    }

    /// A handle on a mutex: see [`crate::Mutex`].
    pub fn mutex(&self, name: &str) -> Mutex {
        Mutex {
            mutex: self.lockhouse.mutex(name),
            lockhouse: self.clone(),
        }
    }

    /// A handle on a readers-writer lock: see [`crate::RwLock`].
    pub fn rwlock(&self, name: &str) -> RwLock {
        RwLock {
            rwlock: self.lockhouse.rwlock(name),
            lockhouse: self.clone(),
        }
    }

    /// A request for permits under a fresh id, completed by `say`: see [`crate::Lockhouse::request`].
    pub fn request(&self, say: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Ask {
        Ask {
            ask: say(self.lockhouse.request()),
            lockhouse: self.clone(),
        }
    }

    /// A request for permits under an id that the caller picks, completed by `say`: see
    /// [`crate::Lockhouse::request_with_id`].
    pub fn request_with_id(
        &self,
        id: &str,
        say: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Ask {
        Ask {
            ask: say(self.lockhouse.request_with_id(id)),
            lockhouse: self.clone(),
        }
    }
}

impl Runtime {
    /// Whether this is its own thread, on which nothing goes on while it waits.
    fn is_current(&self) -> bool {
        let current = thread::current().id();
        let own = self.thread.as_ref().map(|thread| thread.thread().id());
        own == Some(current)
    }

    fn unanswered(&self) -> MutexGuard<'_, Option<mpsc::Receiver<()>>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what was dropped `is_released`, for as long as the store may still answer.
    fn wait_until(&self, is_released: mpsc::Receiver<()>) {
        if self.is_current() {
            return;
        }
        let mut unanswered = self.unanswered();
        let answers = |earlier: &mpsc::Receiver<()>| earlier.try_recv().is_ok();
        if !unanswered.as_ref().is_none_or(answers) {
            *unanswered = Some(is_released);
            return;
        }
        *unanswered = None;
        drop(unanswered);
        let patience = match Handle::try_current() {
            Ok(_) => PATIENCE_IN_A_RUNTIME,
            Err(_) => PATIENCE,
        };
        if is_released.recv_timeout(patience).is_err() {
            *self.unanswered() = Some(is_released);
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some((lockhouse, close)) = self.closing.take() {
            // A thread that panicked takes nothing any more.
            let _ = close.send(lockhouse);
        }
        let is_current = self.is_current();
        if let Some(thread) = self.thread.take().filter(|_| !is_current) {
            let _ = thread.join();
        }
    }
}

/// An ask for permits; see [`Lockhouse::request`].
#[derive(Clone, Debug)]
#[must_use = "nothing is asked until acquire or try_acquire"]
pub struct Ask {
    ask: RequestBuilder,
    lockhouse: Lockhouse,
}

impl Ask {
    /// See [`RequestBuilder::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.ask.acquire().await)
    }

    /// See [`RequestBuilder::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.ask.try_acquire().await)
    }
}

/// One semaphore by name; see [`crate::Semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    semaphore: crate::Semaphore,
    lockhouse: Lockhouse,
}

impl Semaphore {
    /// See [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1)
    }

    /// See [`crate::Semaphore::acquire_many`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire_many(&self, count: u32) -> Result<Permit, Error> {
        let acquire = async |_: &_| self.semaphore.acquire_many(count).await;
        self.lockhouse.hold(acquire)
    }

    /// See [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(&self) -> Result<Permit, Error> {
        self.try_acquire_many(1)
    }

    /// See [`crate::Semaphore::try_acquire_many`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire_many(&self, count: u32) -> Result<Permit, Error> {
        let acquire = async |_: &_| self.semaphore.try_acquire_many(count).await;
        self.lockhouse.hold(acquire)
    }

    /// See [`crate::Semaphore::available_permits`].
    ///
    /// # Errors
    /// As there.
    pub fn available_permits(&self) -> Result<u32, Error> {
        let call = async |_: &_| self.semaphore.available_permits().await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::resize`].
    ///
    /// # Errors
    /// As there.
    pub fn resize(&self, capacity: u32) -> Result<SemaphoreStatus, Error> {
        let call = async |_: &_| self.semaphore.resize(capacity).await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::add_permits`].
    ///
    /// # Errors
    /// As there.
    pub fn add_permits(&self, count: u32) -> Result<u32, Error> {
        let call = async |_: &_| self.semaphore.add_permits(count).await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::forget_permits`].
    ///
    /// # Errors
    /// As there.
    pub fn forget_permits(&self, count: u32) -> Result<u32, Error> {
        let call = async |_: &_| self.semaphore.forget_permits(count).await;
        self.lockhouse.wait(call)
    }
}

/// A mutex by name; see [`crate::Mutex`].
#[derive(Clone, Debug)]
pub struct Mutex {
    mutex: crate::Mutex,
    lockhouse: Lockhouse,
}

impl Mutex {
    /// See [`crate::Mutex::lock`].
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.mutex.lock().await)
    }

    /// See [`crate::Mutex::try_lock`].
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.mutex.try_lock().await)
    }
}

/// A readers-writer lock by name; see [`crate::RwLock`].
#[derive(Clone, Debug)]
pub struct RwLock {
    rwlock: crate::RwLock,
    lockhouse: Lockhouse,
}

impl RwLock {
    /// See [`crate::RwLock::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.read().await)
    }

    /// See [`crate::RwLock::try_read`].
    ///
    /// # Errors
    /// As there.
    pub fn try_read(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.try_read().await)
    }

    /// See [`crate::RwLock::write`].
    ///
    /// # Errors
    /// As there.
    pub fn write(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.write().await)
    }

    /// See [`crate::RwLock::try_write`].
    ///
    /// # Errors
    /// As there.
    pub fn try_write(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.try_write().await)
    }
}

/// Permits that are held, and renewed on another thread; see [`crate::Permit`].
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    /// Taken by what ends it.
    permit: Option<crate::Permit>,
    lockhouse: Lockhouse,
}

impl Permit {
    #[track_caller]
    fn permit(&self) -> &crate::Permit {
        let permit = self.permit.as_ref();
        permit.expect("only calls that consume the permit take it")
    }

    #[track_caller]
    fn take(&mut self) -> crate::Permit {
        let permit = self.permit.take();
        permit.expect("only calls that consume the permit take it")
    }

    /// See [`crate::Permit::external_id`].
    pub fn external_id(&self) -> &ExternalId {
        self.permit().external_id()
    }

    /// See [`crate::Permit::request`].
    pub fn request(&self) -> &Request {
        self.permit().request()
    }

    /// See [`crate::Permit::num_permits`].
    pub fn num_permits(&self) -> u64 {
        self.permit().num_permits()
    }

    /// See [`crate::Permit::fence`].
    ///
    /// # Panics
    /// If the request was not for `semaphore`.
    #[track_caller]
    pub fn fence(&self, semaphore: &str) -> u64 {
        self.permit().fence(semaphore)
    }

    /// Whether the hold is lost. Look often, and before each step that can't be undone: see
    /// [`crate::Permit::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.permit().is_lost()
    }

    /// Until when it is surely held: see [`crate::Permit::held_until`].
    pub fn held_until(&self) -> Option<std::time::Instant> {
        self.permit().held_until()
    }

    /// Waits until the hold is lost, perhaps on a thread of its own: see [`crate::Permit::lost`].
    pub fn lost(&self) -> Lost {
        self.lockhouse.wait(async |_| self.permit().lost().await)
    }

    /// See [`crate::Permit::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(mut self) -> Result<Released, Error> {
        let permit = self.take();
        self.lockhouse.wait(async |_| permit.release().await)
    }

    /// See [`crate::Permit::forget`].
    pub fn forget(mut self) -> ExternalId {
        self.take().forget()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.lockhouse.runtime.wait_until(permit.give_back());
        }
    }
}
