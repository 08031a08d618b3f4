//! The client for programs without async: the same calls, which block until the answer.
//!
//! A [`Lockhouse`] here has a thread that renews permits while the program works. A call of [`crate::Lockhouse`] that
//! this module lacks goes through [`wait`](Lockhouse::wait).
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
//! Dropping a permit releases it before `drop` returns, so the next caller finds the room. If the store does not answer
//! within 11 s, `drop` returns, and the release is retried in the background. Later drops do not wait until the store
//! answers again. Dropping the last clone of a [`Lockhouse`] and its permits waits for these releases, for at most 11 s.
//!
//! # Panics
//! Every call that blocks panics in async code, where it would hold up other tasks. A drop does not panic there: it
//! blocks the thread until the store answers, for at most 2 s.

mod runtime;

use std::sync::Arc;
use std::thread;

use lockhouse_core::ExternalId;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use self::runtime::Runtime;
use crate::{Error, Lost, Released, Request, RequestBuilder, SemaphoreStatus};

/// A client of the semaphores in a database, or behind a server; see [`crate::Lockhouse`]. Cloning is cheap.
///
/// ```
/// # fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::blocking::{Lockhouse, Mutex, Permit, RwLock, Semaphore};
///
/// let lockhouse = Lockhouse::connect("memory:")?;
/// lockhouse.define("backup-slots", 10)?;
/// let slots: Semaphore = lockhouse.semaphore("backup-slots");
/// let permit: Permit = slots.acquire_many(2)?;
/// assert_eq!(slots.available_permits()?, 8);
/// drop(permit);
/// assert_eq!(slots.available_permits()?, 10);
///
/// let deploy: Mutex = lockhouse.mutex("deploy");
/// let guard = deploy.lock()?;
/// assert!(deploy.try_lock().is_err());
/// drop(guard);
/// let catalogue: RwLock = lockhouse.rwlock("catalogue");
/// let reader = catalogue.read()?;
/// assert!(catalogue.try_write().is_err());
/// # drop(reader);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lockhouse {
    lockhouse: crate::Lockhouse,
    runtime: Arc<Runtime>,
}

impl Lockhouse {
    /// Connects to a database or a server: see [`crate::Lockhouse::connect`].
    ///
    /// # Errors
    /// As [`crate::Lockhouse::connect`]; [`Error::Internal`] if no thread can be started.
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

    /// Runs `call` on the async client, and blocks until it is done.
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
    /// [`Error::Invalid`], [`Error::Store`].
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
    pub fn request(&self, say: impl FnOnce(RequestBuilder) -> RequestBuilder) -> PreparedRequest {
        PreparedRequest {
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
    ) -> PreparedRequest {
        PreparedRequest {
            ask: say(self.lockhouse.request_with_id(id)),
            lockhouse: self.clone(),
        }
    }
}

/// A request for permits that is ready to be sent; see [`Lockhouse::request`] and [`Lockhouse::request_with_id`].
///
/// ```
/// use lockhouse::blocking::{Lockhouse, PreparedRequest};
///
/// # fn main() -> Result<(), lockhouse::Error> {
/// let lockhouse = Lockhouse::connect("memory:")?;
/// lockhouse.define("gpu", 1)?;
/// let request: PreparedRequest = lockhouse.request(|request| request.permits("gpu", 1));
/// let permit = request.acquire()?;
/// permit.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is asked until acquire or try_acquire"]
pub struct PreparedRequest {
    ask: RequestBuilder,
    lockhouse: Lockhouse,
}

impl PreparedRequest {
    /// See [`RequestBuilder::acquire`].
    ///
    /// # Errors
    /// As [`RequestBuilder::acquire`].
    pub fn acquire(self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.ask.acquire().await)
    }

    /// See [`RequestBuilder::try_acquire`].
    ///
    /// # Errors
    /// As [`RequestBuilder::try_acquire`].
    pub fn try_acquire(self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.ask.try_acquire().await)
    }
}

/// A handle on one semaphore by its name; see [`crate::Semaphore`].
/// [`Lockhouse`] has an example.
#[derive(Clone, Debug)]
pub struct Semaphore {
    semaphore: crate::Semaphore,
    lockhouse: Lockhouse,
}

impl Semaphore {
    /// See [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1)
    }

    /// See [`crate::Semaphore::acquire_many`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, count: u32) -> Result<Permit, Error> {
        let acquire = async |_: &_| self.semaphore.acquire_many(count).await;
        self.lockhouse.hold(acquire)
    }

    /// See [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Permit, Error> {
        self.try_acquire_many(1)
    }

    /// See [`crate::Semaphore::try_acquire_many`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire_many`].
    pub fn try_acquire_many(&self, count: u32) -> Result<Permit, Error> {
        let acquire = async |_: &_| self.semaphore.try_acquire_many(count).await;
        self.lockhouse.hold(acquire)
    }

    /// See [`crate::Semaphore::available_permits`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::available_permits`].
    pub fn available_permits(&self) -> Result<u32, Error> {
        let call = async |_: &_| self.semaphore.available_permits().await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::is_closed`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::is_closed`].
    pub fn is_closed(&self) -> Result<bool, Error> {
        let call = async |_: &_| self.semaphore.is_closed().await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::resize`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::resize`].
    pub fn resize(&self, capacity: u32) -> Result<SemaphoreStatus, Error> {
        let call = async |_: &_| self.semaphore.resize(capacity).await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::add_permits`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::add_permits`].
    pub fn add_permits(&self, count: u32) -> Result<u32, Error> {
        let call = async |_: &_| self.semaphore.add_permits(count).await;
        self.lockhouse.wait(call)
    }

    /// See [`crate::Semaphore::forget_permits`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::forget_permits`].
    pub fn forget_permits(&self, count: u32) -> Result<u32, Error> {
        let call = async |_: &_| self.semaphore.forget_permits(count).await;
        self.lockhouse.wait(call)
    }
}

/// A mutex by name; see [`crate::Mutex`].
/// [`Lockhouse`] has an example.
#[derive(Clone, Debug)]
pub struct Mutex {
    mutex: crate::Mutex,
    lockhouse: Lockhouse,
}

impl Mutex {
    /// See [`crate::Mutex::lock`].
    ///
    /// # Errors
    /// As [`crate::Mutex::lock`].
    pub fn lock(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.mutex.lock().await)
    }

    /// See [`crate::Mutex::try_lock`].
    ///
    /// # Errors
    /// As [`crate::Mutex::try_lock`].
    pub fn try_lock(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.mutex.try_lock().await)
    }
}

/// A readers-writer lock by name; see [`crate::RwLock`].
/// [`Lockhouse`] has an example.
#[derive(Clone, Debug)]
pub struct RwLock {
    rwlock: crate::RwLock,
    lockhouse: Lockhouse,
}

impl RwLock {
    /// See [`crate::RwLock::read`].
    ///
    /// # Errors
    /// As [`crate::RwLock::read`].
    pub fn read(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.read().await)
    }

    /// See [`crate::RwLock::try_read`].
    ///
    /// ```
    /// let lockhouse = lockhouse::blocking::Lockhouse::connect("memory:")?;
    /// let catalogue = lockhouse.rwlock("catalogue");
    /// let reader = catalogue.try_read()?;
    /// assert!(reader.held_until().is_some());
    /// assert!(catalogue.try_write().is_err());
    /// # Ok::<(), lockhouse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.try_read().await)
    }

    /// See [`crate::RwLock::write`].
    ///
    /// # Errors
    /// As [`crate::RwLock::write`].
    pub fn write(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.write().await)
    }

    /// See [`crate::RwLock::try_write`].
    ///
    /// # Errors
    /// As [`crate::RwLock::try_write`].
    pub fn try_write(&self) -> Result<Permit, Error> {
        self.lockhouse.hold(async |_| self.rwlock.try_write().await)
    }
}

/// The permits that one request holds, renewed on another thread; see [`crate::Permit`].
/// [`Lockhouse`] has an example.
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    /// `None` once it is released or forgotten.
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

    /// Whether the hold is lost. Check it before each step that cannot be undone: see [`crate::Permit::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.permit().is_lost()
    }

    /// Until when the hold is certain: see [`crate::Permit::held_until`].
    pub fn held_until(&self) -> Option<std::time::Instant> {
        self.permit().held_until()
    }

    /// Blocks until the hold is lost: see [`crate::Permit::lost`].
    pub fn lost(&self) -> Lost {
        self.lockhouse.wait(async |_| self.permit().lost().await)
    }

    /// See [`crate::Permit::release`].
    ///
    /// # Errors
    /// As [`crate::Permit::release`].
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
