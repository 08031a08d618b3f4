//! tokio's own tests of its semaphore (`tests/sync_semaphore.rs` and `tests/sync_semaphore_owned.rs` of
//! tokio 1.54, MIT), case by case, in memory and on SQLite. A permit here borrows nothing, so the owned and the
//! borrowing cases are one.
//!
//! Each case has the name that it has in tokio. These cases have no meaning here:
//!
//! | tokio's cases | why |
//! |---|---|
//! | `merge`, `merge_unrelated_permits`, `merge_many_permits`, `merge_many_permits_owned` | a permit is one request, with one id and one fence; keep two permits in a `Vec` |
//! | `split` | a request ends once, for one reason (P3), and all its permits return then; make two requests. `num_permits` is tested in `num_permits` |
//! | `add_permits_closed`, `forget_closed`, `blocking_acquire_closed`, `close_wakes_all_waiters` | a semaphore outlives every process, so it is never closed for good; resized to 0 it is closed until the next resize, and waiters wait |
//! | `close_drops_wakers_outside_lock`, `close_wakes_waiters_outside_lock` | the same; they test tokio's inner locks |
//! | `permit_semaphore` | a permit borrows no semaphore; `Permit::request` has the names |
//! | `blocking_acquire_owned`, `blocking_acquire_many_owned`, and both in async code | a blocking permit borrows nothing, so `blocking_acquire` is the owned one too |
//!
//! Where tokio panics beyond the maximum, a call here returns `Error::Invalid`.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use lockhouse::{Code, Error, Lockhouse, Semaphore, blocking};

/// Runs a case in memory and on SQLite.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {$(
        mod $case {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn memory() {
                super::$case(super::connect("memory:").await).await;
            }

            #[cfg(feature = "sqlite")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("permits.db").display());
                super::$case(super::connect(&url).await).await;
            }
        }
    )+};
}

cases! {
    no_permits,
    try_acquire,
    try_acquire_many,
    acquire,
    acquire_many,
    add_permits,
    add_permits_open,
    forget,
    forget_open,
    num_permits,
    stress_test,
    add_max_amount_permits,
    add_more_than_max_amount_permits1,
    add_more_than_max_amount_permits2,
    panic_when_exceeds_maxpermits,
    no_panic_at_maxpermits,
    acquire_many_exceeds_maxpermits,
    acquire_many_top_bit_exceeds_maxpermits,
}

async fn connect(url: &str) -> Lockhouse {
    Lockhouse::connect(url).await.unwrap()
}

/// A semaphore of `capacity`, as tokio's `Semaphore::new`.
async fn new(lockhouse: &Lockhouse, capacity: u32) -> Semaphore {
    lockhouse.define("s", capacity).await.unwrap();
    lockhouse.semaphore("s")
}

async fn available(semaphore: &Semaphore) -> u32 {
    semaphore.available_permits().await.unwrap()
}

async fn is_exhausted(semaphore: &Semaphore, count: u32) -> bool {
    let refused = semaphore.try_acquire_many(count).await;
    refused.is_err_and(|error| error.code() == Code::Exhausted)
}

async fn no_permits(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 0).await;
    assert_eq!(available(&semaphore).await, 0);
}

async fn try_acquire(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 1).await;
    {
        let _held = semaphore.try_acquire().await.unwrap();
        assert!(is_exhausted(&semaphore, 1).await);
    }
    let _held = semaphore.clone().try_acquire_owned().await.unwrap();
}

async fn try_acquire_many(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 42).await;
    {
        let _all = semaphore.try_acquire_many(42).await.unwrap();
        assert!(is_exhausted(&semaphore, 1).await);
    }
    let _most = semaphore.clone().try_acquire_many_owned(32).await.unwrap();
    let _rest = semaphore.clone().try_acquire_many_owned(10).await.unwrap();
    assert!(is_exhausted(&semaphore, 1).await);
}

async fn acquire(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 1).await;
    let held = semaphore.try_acquire().await.unwrap();
    let waiter = tokio::spawn(semaphore.acquire_owned());
    drop(held);
    drop(waiter.await.unwrap().unwrap());
}

async fn acquire_many(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 42).await;
    let most = semaphore.try_acquire_many(32).await.unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let waiter = tokio::spawn(async move {
        let _rest = semaphore.acquire_many(10).await.unwrap();
        sender.send(()).unwrap();
        drop(semaphore.acquire_many(32).await.unwrap());
    });
    receiver.await.unwrap();
    drop(most);
    waiter.await.unwrap();
}

async fn add_permits(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 0).await;
    let waiter = tokio::spawn(semaphore.clone().acquire_owned());
    assert_eq!(semaphore.add_permits(1).await.unwrap(), 1);
    drop(waiter.await.unwrap().unwrap());
}

async fn add_permits_open(lockhouse: Lockhouse) {
    for size in 0..4 {
        for add in 0..4 {
            let semaphore = new(&lockhouse, size).await;
            assert_eq!(semaphore.add_permits(add).await.unwrap(), size + add);
            assert_eq!(available(&semaphore).await, size + add);
            assert_eq!(semaphore.is_closed().await.unwrap(), size + add == 0);
        }
    }
}

async fn forget(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 1).await;
    let held = semaphore.try_acquire().await.unwrap();
    assert_eq!(available(&semaphore).await, 0);
    held.forget();
    assert_eq!(available(&semaphore).await, 0);
    assert!(is_exhausted(&semaphore, 1).await);
}

async fn forget_open(lockhouse: Lockhouse) {
    for size in 0..4_u32 {
        for sub in 0..4 {
            let semaphore = new(&lockhouse, size).await;
            let taken = semaphore.forget_permits(sub).await.unwrap();
            let expected = size.saturating_sub(sub);
            assert_eq!(available(&semaphore).await, expected, "case: {size}-{sub}");
            assert_eq!(taken, size - expected);
        }
    }
}

/// The rest of tokio's `merge` and `split`.
async fn num_permits(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 5).await;
    lockhouse.define("t", 5).await.unwrap();
    let three = semaphore.try_acquire_many(3).await.unwrap();
    assert_eq!(three.num_permits(), 3);
    let both = lockhouse.request().permits("s", 2).permits("t", 4);
    let both = both.try_acquire().await.unwrap();
    assert_eq!(both.num_permits(), 6);
    drop(three);
    assert_eq!(available(&semaphore).await, 3);
    drop(both);
    assert_eq!(available(&semaphore).await, 5);
}

async fn stress_test(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 5).await;
    let tasks = (0..1000).map(|_| {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { drop(semaphore.acquire().await.unwrap()) })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(semaphore.try_acquire().await.unwrap());
    }
    assert!(is_exhausted(&semaphore, 1).await);
}

async fn add_max_amount_permits(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 0).await;
    semaphore.add_permits(Semaphore::MAX_PERMITS).await.unwrap();
    assert_eq!(available(&semaphore).await, Semaphore::MAX_PERMITS);
}

async fn add_more_than_max_amount_permits1(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 1).await;
    let more = semaphore.add_permits(Semaphore::MAX_PERMITS).await;
    assert!(matches!(more, Err(Error::Invalid(_))), "{more:?}");
    assert_eq!(available(&semaphore).await, 1);
}

async fn add_more_than_max_amount_permits2(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, Semaphore::MAX_PERMITS - 1).await;
    semaphore.add_permits(1).await.unwrap();
    let more = semaphore.add_permits(1).await;
    assert!(matches!(more, Err(Error::Invalid(_))), "{more:?}");
}

async fn panic_when_exceeds_maxpermits(lockhouse: Lockhouse) {
    let beyond = i64::from(Semaphore::MAX_PERMITS) + 1;
    let beyond = lockhouse.define("s", beyond).await;
    assert!(matches!(beyond, Err(Error::Invalid(_))), "{beyond:?}");
}

async fn no_panic_at_maxpermits(lockhouse: Lockhouse) {
    new(&lockhouse, Semaphore::MAX_PERMITS).await;
    let semaphore = new(&lockhouse, Semaphore::MAX_PERMITS - 1).await;
    semaphore.add_permits(1).await.unwrap();
}

async fn acquire_many_exceeds_maxpermits(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 0).await;
    let refused = semaphore.acquire_many(Semaphore::MAX_PERMITS + 1).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

async fn acquire_many_top_bit_exceeds_maxpermits(lockhouse: Lockhouse) {
    let semaphore = new(&lockhouse, 0).await;
    for count in [1_u32 << 31, u32::MAX] {
        let refused = semaphore.acquire_many(count).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
}

fn new_blocking(capacity: u32) -> blocking::Semaphore {
    let lockhouse = blocking::Lockhouse::connect("memory:").unwrap();
    lockhouse.define("s", capacity).unwrap();
    lockhouse.semaphore("s")
}

#[test]
fn blocking_acquire() {
    let semaphore = new_blocking(1);
    let held = semaphore.acquire().unwrap();
    assert_eq!(semaphore.available_permits().unwrap(), 0);
    drop(held);
    assert_eq!(semaphore.available_permits().unwrap(), 1);
}

#[test]
fn blocking_acquire_waits_for_permit() {
    let semaphore = new_blocking(0);
    let waiter = semaphore.clone();
    let waiter = std::thread::spawn(move || drop(waiter.acquire().unwrap()));
    assert_eq!(semaphore.add_permits(1).unwrap(), 1);
    waiter.join().unwrap();
    assert_eq!(semaphore.forget_permits(2).unwrap(), 1);
}

#[test]
fn blocking_acquire_many() {
    let semaphore = new_blocking(5);
    let held = semaphore.acquire_many(3).unwrap();
    assert_eq!(semaphore.available_permits().unwrap(), 2);
    drop(held);
    assert_eq!(semaphore.available_permits().unwrap(), 5);
}

fn panics_in_async_code(acquire: impl FnOnce(blocking::Semaphore) + Send + 'static) -> bool {
    let semaphore = new_blocking(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let acquire = async move { acquire(semaphore) };
    runtime.block_on(async { tokio::spawn(acquire).await.is_err() })
}

#[test]
fn blocking_acquire_in_async_context() {
    assert!(panics_in_async_code(|semaphore| drop(semaphore.acquire())));
}

#[test]
fn blocking_acquire_many_in_async_context() {
    assert!(panics_in_async_code(|semaphore| {
        drop(semaphore.acquire_many(1));
    }));
}
