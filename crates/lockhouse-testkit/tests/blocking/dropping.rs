//! P10: a permit of the blocking form is released when its drop returns, on any thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockhouse::blocking::{Lockhouse, Permit};
use lockhouse_testkit::link::{Failure, Link};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::{self, Place};
use tokio::task::spawn_blocking;

on_each_store!(
    a_dropped_permit_is_available_when_drop_returns,
    a_dropped_guard_is_free_when_drop_returns,
    a_permit_dropped_by_a_panic_is_available_when_the_panic_is_caught,
);

/// Only a test that hangs takes this long.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_of_a_server_is_available_when_drop_returns() {
    let place = place::server().await.unwrap();
    a_dropped_permit_is_available_when_drop_returns(place).await;
}

async fn a_dropped_permit_is_available_when_drop_returns(place: Place) {
    without_async(&place, |one, two| {
        for _ in 0..20 {
            let held = [one.semaphore("s").acquire(), one.semaphore("s").acquire()];
            let [first, second] = held.map(Result::unwrap);
            drop(second);
            assert_eq!(two.semaphore("s").available_permits().unwrap(), 2);
            drop(first);
            assert_eq!(one.semaphore("s").available_permits().unwrap(), 3);
            drop(two.semaphore("s").try_acquire_many(3).unwrap());
        }
        let ask = |ask: lockhouse::RequestBuilder| ask.permits("s", 3);
        drop(one.request_with_id("job", ask).acquire().unwrap());
        drop(two.semaphore("s").try_acquire_many(3).unwrap());
    })
    .await;
    place.clear().await;
}

async fn a_dropped_guard_is_free_when_drop_returns(place: Place) {
    without_async(&place, |one, two| {
        for _ in 0..10 {
            drop(one.mutex("m").lock().unwrap());
            drop(two.mutex("m").try_lock().unwrap());
            let readers = [one.rwlock("rw").read(), two.rwlock("rw").try_read()];
            drop(readers.map(Result::unwrap));
            drop(two.rwlock("rw").try_write().unwrap());
            drop(one.rwlock("rw").try_read().unwrap());
        }
    })
    .await;
    place.clear().await;
}

async fn a_permit_dropped_by_a_panic_is_available_when_the_panic_is_caught(place: Place) {
    without_async(&place, |one, two| {
        let permit = one.semaphore("s").acquire_many(3).unwrap();
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let _held = permit;
            std::panic::resume_unwind(Box::new("the work failed"));
        }));
        assert!(worked.is_err());
        drop(two.semaphore("s").try_acquire_many(3).unwrap());
    })
    .await;
    place.clear().await;
}

/// A permit may be moved into async code, where blocking calls panic.
#[test]
fn a_permit_dropped_in_async_code_is_given_back() {
    for threads in [0, 2] {
        let (_folder, one, two) = super::house();
        let mut builder = match threads {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().unwrap();
        let permits: Vec<Permit> = (0..3)
            .map(|_| one.semaphore("s").acquire().unwrap())
            .collect();
        runtime.block_on(async {
            let mut permits = permits.into_iter();
            drop(permits.next());
            let dropping = tokio::spawn(async move { drop(permits.next()) });
            dropping.await.unwrap();
        });
        drop(two.semaphore("s").try_acquire_many(3).unwrap());
    }
}

/// The drop blocks the thread that would release the permit.
#[test]
fn a_permit_dropped_on_the_thread_that_renews_it_is_given_back() {
    let (_folder, one, two) = super::house();
    let permit = one.semaphore("s").acquire_many(3).unwrap();
    let began = Instant::now();
    one.wait(async move |_| tokio::spawn(async move { drop(permit) }).await)
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    drop(two.semaphore("s").acquire_many(3).unwrap());
}

#[test]
fn the_last_client_may_be_dropped_on_the_thread_that_renews() {
    let (_folder, one, two) = super::house();
    let permit = one.semaphore("s").acquire_many(3).unwrap();
    let (go, goes) = tokio::sync::oneshot::channel::<()>();
    let (dropped, is_dropped) = mpsc::channel();
    one.wait(async |_| {
        tokio::spawn(async move {
            let _ = goes.await;
            drop(permit);
            dropped.send(()).unwrap();
        });
    });
    drop(one);
    go.send(()).unwrap();
    is_dropped.recv_timeout(SOON).unwrap();
    drop(two.semaphore("s").acquire_many(3).unwrap());
}

/// A thread-local permit is dropped after the thread's other values.
#[test]
fn a_permit_of_a_thread_is_given_back_when_the_thread_ends() {
    thread_local! {
        static HELD: std::cell::RefCell<Option<Permit>> = const { std::cell::RefCell::new(None) };
    }
    let (_folder, one, two) = super::house();
    let holding = thread::spawn({
        let one = one.clone();
        move || HELD.set(Some(one.semaphore("s").acquire_many(3).unwrap()))
    });
    holding.join().unwrap();
    drop(two.semaphore("s").try_acquire_many(3).unwrap());
}

/// The first drop finds the store silent, and the later ones do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_are_bounded_in_time_while_the_store_is_silent() {
    let place = place::server().await.unwrap();
    let link = Link::to(place.url()).await;
    let url = link.before(place.url());
    place.client().await.define("s", 20).await.unwrap();
    let held = spawn_blocking(move || {
        let one = Lockhouse::connect(url).unwrap();
        let permits = (0..20).map(|_| one.semaphore("s").acquire().unwrap());
        (permits.collect::<Vec<_>>(), one)
    });
    let (permits, one) = held.await.unwrap();
    link.fail(Failure::Silent);
    let dropping = spawn_blocking(move || {
        let dropping = thread::spawn(move || {
            let began = Instant::now();
            drop(permits);
            began.elapsed()
        });
        dropping.join().unwrap()
    });
    let took = dropping.await.unwrap();
    assert!(took < Duration::from_secs(15), "{took:?}");
    link.mend();
    let back = spawn_blocking(move || one.semaphore("s").acquire_many(20).map(drop));
    back.await.unwrap().unwrap();
}

/// Runs `something` with two clients on a thread without a runtime.
async fn without_async(
    place: &Place,
    something: impl FnOnce(Lockhouse, Lockhouse) + Send + 'static,
) {
    let url = place.url().to_owned();
    let doing = thread::spawn(move || {
        let one = Lockhouse::connect(&url).unwrap();
        one.define("s", 3).unwrap();
        something(one, Lockhouse::connect(&url).unwrap());
    });
    spawn_blocking(|| doing.join()).await.unwrap().unwrap();
}
