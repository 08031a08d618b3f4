//! The library for programs without async.

#![allow(clippy::unwrap_used)]

mod dropping;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockhouse::blocking::Lockhouse;
use lockhouse::{Code, EndReason, Lost};

/// A new store, and two clients.
fn house() -> (tempfile::TempDir, Lockhouse, Lockhouse) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lockhouse.db").display());
    let one = Lockhouse::connect(&url).unwrap();
    let two = Lockhouse::connect(&url).unwrap();
    one.define("s", 3).unwrap();
    (folder, one, two)
}

#[test]
fn every_call_waits_for_its_answer() {
    let (_folder, one, two) = house();
    let s = one.semaphore("s");
    let held = [s.acquire().unwrap(), s.acquire_many(2).unwrap()];
    assert_eq!(two.semaphore("s").available_permits().unwrap(), 0);
    let full = two.semaphore("s").try_acquire().unwrap_err();
    assert_eq!(full.code(), Code::Exhausted);
    assert!(held[1].fence("s") > held[0].fence("s"));
    assert_eq!(held[1].request().permits[0].count.value(), 2);
    for permit in held {
        assert!(permit.release().unwrap().now);
    }
    s.resize(1).unwrap();
    let only = s.try_acquire_many(1).unwrap();
    let brief =
        |ask: lockhouse::RequestBuilder| ask.permits("s", 1).wait(Duration::from_millis(100));
    let full = two.request_with_id("r", brief).acquire().unwrap_err();
    assert_eq!(full.code(), Code::Exhausted);
    let full = two.request_with_id("r", brief).try_acquire().unwrap_err();
    assert_eq!(full.code(), Code::Exhausted);
    let id = only.forget();
    assert!(
        one.wait(async |lockhouse| lockhouse.release(id).await)
            .unwrap()
            .now
    );

    let guard = one.mutex("m").lock().unwrap();
    assert!(two.mutex("m").try_lock().is_err());
    guard.release().unwrap();
    let rwlock = two.rwlock("rw");
    let readers = [rwlock.read().unwrap(), rwlock.try_read().unwrap()];
    assert!(rwlock.try_write().is_err());
    for reader in readers {
        reader.release().unwrap();
    }
    rwlock.write().unwrap().release().unwrap();
}

/// The program does other work for longer than the TTL.
#[test]
fn a_permit_renews_itself_while_the_program_works() {
    let (_folder, one, _two) = house();
    let ttl = Duration::from_secs(1);
    let ask = one.request_with_id("job", |ask| ask.permits("s", 1).ttl(ttl));
    let permit = ask.acquire().unwrap();
    let (held_until, worked) = (permit.held_until().unwrap(), Instant::now() + 3 * ttl);
    thread::sleep(worked - Instant::now());
    assert!(!permit.is_lost() && permit.held_until().unwrap() > held_until);
    assert!(permit.release().unwrap().now);
}

#[test]
fn a_thread_can_wait_for_the_loss() {
    let (_folder, one, two) = house();
    let ask = one.request_with_id("job", |ask| ask.permits("s", 1).ttl(Duration::from_secs(1)));
    let permit = ask.acquire().unwrap();
    let (told, tells) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| told.send(permit.lost()).unwrap());
        let forced = two.wait(async |lockhouse| lockhouse.force_release("job", None).await);
        assert!(forced.unwrap().now);
        let lost = tells.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(lost, Lost::Ended(EndReason::Forced));
    });
    assert!(permit.is_lost());
}

/// P10: the order of the drops does not matter.
#[test]
fn dropped_permits_are_released_when_the_last_client_is_dropped() {
    let (_folder, one, two) = house();
    let (first, second) = (
        one.semaphore("s").acquire(),
        one.clone().semaphore("s").acquire(),
    );
    drop(first);
    drop(one);
    drop(second);
    assert_eq!(two.semaphore("s").available_permits().unwrap(), 3);
}
