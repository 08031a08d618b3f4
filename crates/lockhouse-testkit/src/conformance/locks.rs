//! The methods of tokio's semaphore, of mutexes, and of readers-writer locks.

use futures_util::future::join;
use lockhouse::{Capacity, Code, Lockhouse, Refusal};
use tokio::task::JoinHandle;

use super::steps::{SOON, eventually, in_use, name, refusal};
use crate::place::Place;

/// Each method does the same as tokio's method of that name.
pub async fn a_handle_has_the_words_of_tokio(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    let s = lockhouse.semaphore("s");
    let one = s.acquire().await.unwrap();
    let two = tokio::spawn(s.clone().acquire_many_owned(2));
    let two = two.await.unwrap().unwrap();
    assert_eq!(s.available_permits().await.unwrap(), 0);
    for full in [
        s.try_acquire().await,
        s.try_acquire_many(2).await,
        s.clone().try_acquire_owned().await,
        s.clone().try_acquire_many_owned(2).await,
    ] {
        assert_eq!(refusal(full).code(), Code::Exhausted);
    }
    s.resize(4).await.unwrap();
    let added = s.clone().acquire_owned().await.unwrap();
    s.resize(2).await.unwrap();
    assert_eq!(s.available_permits().await.unwrap(), 0);
    for permit in [one, two, added] {
        assert!(permit.release().await.unwrap().now);
    }
    let all = s.try_acquire_many(2).await.unwrap();
    assert_eq!(s.available_permits().await.unwrap(), 0);
    assert_eq!(in_use(&lockhouse, "s").await, 2);
    all.release().await.unwrap();
    let nowhere = lockhouse.semaphore("nowhere").resize(1).await;
    assert_eq!(refusal(nowhere).code(), Code::UnknownSemaphore);
}

/// P9: several relative changes at once from the same capacity all count.
pub async fn permits_added_at_once_all_count(place: &Place) {
    let lockhouse = place.client().await;
    let other = place.client().await;
    lockhouse.define("s", 4).await.unwrap();
    let add = async |lockhouse: &Lockhouse| {
        for _ in 0..3 {
            lockhouse.semaphore("s").add_permits(1).await.unwrap();
        }
    };
    join(join(add(&lockhouse), add(&lockhouse)), add(&other)).await;
    let s = lockhouse.semaphore("s");
    assert_eq!(s.available_permits().await.unwrap(), 13);
    let (one, two) = join(s.forget_permits(2), s.forget_permits(3)).await;
    assert_eq!((one.unwrap(), two.unwrap()), (2, 3));
    assert_eq!(s.available_permits().await.unwrap(), 8);
}

/// The first user creates the mutex. One caller at a time has the lock, in the order of arrival.
pub async fn a_mutex_is_for_one_at_a_time(place: &Place) {
    let lockhouse = place.client().await;
    let other = place.client().await;
    let first = lockhouse.mutex("m").lock().await.unwrap();
    let full = refusal(other.mutex("m").try_lock().await);
    assert_eq!(full.code(), Code::Exhausted);
    let mutex = lockhouse.mutex("m");
    let next = tokio::spawn(async move { mutex.lock().await });
    waits_for(&lockhouse, "m", 1).await;
    let fence = first.fence("m");
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(next.fence("m") > fence);
    let status = lockhouse.status("m").await.unwrap();
    assert_eq!(status.semaphore.capacity.value(), 1);
    next.release().await.unwrap();
}

/// Many first users at once create one semaphore.
pub async fn a_mutex_is_made_once_by_many_at_once(place: &Place) {
    let lockhouse = place.client().await;
    let one_each = (0..20).map(|_| {
        let mutex = lockhouse.mutex("m");
        tokio::spawn(async move { mutex.lock().await?.release().await })
    });
    for done in one_each.collect::<Vec<JoinHandle<_>>>() {
        assert!(done.await.unwrap().unwrap().now);
    }
    let semaphore = lockhouse.status("m").await.unwrap().semaphore;
    assert_eq!((semaphore.capacity.value(), semaphore.in_use), (1, 0));
}

/// If two callers first use one name for two kinds of lock, one gets an error. Neither resizes the semaphore of the other.
pub async fn a_name_is_a_mutex_or_a_readers_writer_lock(place: &Place) {
    for nth in 0..10 {
        let (one, two) = (place.client().await, place.client().await);
        let (mutex, rwlock) = (
            one.mutex(format!("m-{nth}")),
            two.rwlock(format!("m-{nth}")),
        );
        let (locked, read) = tokio::join!(mutex.try_lock(), rwlock.try_read());
        let refused = match (locked, read) {
            (Ok(_held), refused) => refusal(refused),
            (refused, _) => refusal(refused),
        };
        assert!(
            matches!(refused, Refusal::CapacityChanged { .. }),
            "{refused}"
        );
        let history = one.history(&format!("m-{nth}"), 10).await.unwrap();
        assert_eq!(history, [], "nobody resizes it");
    }
}

/// Such a semaphore would let in more than one caller, or fewer than all readers.
pub async fn a_semaphore_of_another_capacity_is_no_lock(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 5).await.unwrap();
    let mutex = refusal(lockhouse.mutex("s").try_lock().await);
    let of = |expected| Refusal::CapacityChanged {
        name: name("s"),
        expected: Capacity::new(expected).unwrap(),
        capacity: Capacity::new(5).unwrap(),
    };
    assert_eq!(mutex, of(1));
    let rwlock = lockhouse.rwlock("s");
    assert_eq!(refusal(rwlock.read().await), of(i32::MAX));
    assert_eq!(refusal(rwlock.write().await), of(i32::MAX));
    let status = lockhouse.status("s").await.unwrap().semaphore;
    assert_eq!((status.capacity.value(), status.in_use), (5, 0));
}

/// A closed lock is paused. If it opens with another capacity, waiting callers get an error.
pub async fn a_lock_waits_while_its_semaphore_is_closed(place: &Place) {
    let (lockhouse, other) = (place.client().await, place.client().await);
    for (capacity, is_lock) in [(1, true), (2, false)] {
        lockhouse.define("m", 0).await.unwrap();
        let mutex = lockhouse.mutex("m");
        assert_eq!(refusal(mutex.try_lock().await).code(), Code::Exhausted);
        let locking = tokio::spawn(async move { mutex.lock().await });
        waits_for(&lockhouse, "m", 1).await;
        other.define("m", capacity).await.unwrap();
        let locked = tokio::time::timeout(SOON, locking).await.unwrap().unwrap();
        if is_lock {
            locked.unwrap().release().await.unwrap();
        } else {
            assert_eq!(refusal(locked).code(), Code::CapacityChanged);
        }
        eventually("it is released", async || {
            in_use(&lockhouse, "m").await == 0
        })
        .await;
    }
}

/// Readers hold the lock together. A writer holds it alone.
pub async fn readers_share_and_a_writer_is_alone(place: &Place) {
    let (lockhouse, other) = (place.client().await, place.client().await);
    let (here, there) = (lockhouse.rwlock("rw"), other.rwlock("rw"));
    let readers = [here.read().await.unwrap(), there.read().await.unwrap()];
    assert_eq!(refusal(there.try_write().await).code(), Code::Exhausted);
    for reader in readers {
        reader.release().await.unwrap();
    }
    let writer = there.write().await.unwrap();
    assert_eq!(refusal(here.try_read().await).code(), Code::Exhausted);
    assert_eq!(refusal(here.try_write().await).code(), Code::Exhausted);
    writer.release().await.unwrap();
    let reader = here.try_read().await.unwrap();
    reader.release().await.unwrap();
    // A resize can only make the lock smaller, and a writer then gets an error.
    lockhouse.define("rw", 7).await.unwrap();
    let refused = refusal(here.write().await);
    assert_eq!(refused.code(), Code::ExceedsCapacity);
}

/// P11: a reader that comes after a waiting writer is served after it.
pub async fn a_writer_is_not_starved_by_readers(place: &Place) {
    let lockhouse = place.client().await;
    let rwlock = lockhouse.rwlock("rw");
    let reader = rwlock.read().await.unwrap();
    let writing = tokio::spawn({
        let rwlock = rwlock.clone();
        async move { rwlock.write().await }
    });
    waits_for(&lockhouse, "rw", 1).await;
    assert_eq!(refusal(rwlock.try_read().await).code(), Code::Exhausted);
    let next = tokio::spawn({
        let rwlock = rwlock.clone();
        async move { rwlock.read().await }
    });
    waits_for(&lockhouse, "rw", 2).await;
    reader.release().await.unwrap();
    let writer = tokio::time::timeout(SOON, writing).await;
    let writer = writer.unwrap().unwrap().unwrap();
    assert!(!next.is_finished());
    writer.release().await.unwrap();
    let reader = tokio::time::timeout(SOON, next).await;
    reader.unwrap().unwrap().unwrap().release().await.unwrap();
}

async fn waits_for(lockhouse: &Lockhouse, semaphore: &str, count: u32) {
    eventually("they wait", async || {
        lockhouse.status(semaphore).await.unwrap().waiting == count
    })
    .await;
}
