//! Callers at two processes wait in several ways: for a lock, for several semaphores, in several calls, and for a semaphore
//! that is closed meanwhile.

use std::time::Duration;

use lockhouse::{Code, Lockhouse, Permit};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::queue::{Served, ask, hold, until_waiting};

const A_MOMENT: Duration = Duration::from_millis(5);

/// A waiter has been entered in the line by then, and the next one comes more than the window and a commit later.
const APART: Duration = Duration::from_millis(700);

/// Longer than free permits are left to a process that does not claim them.
const PASSED_OVER: Duration = Duration::from_millis(1_500);

on_each_store!(
    waiters_for_a_closed_semaphore_have_their_places_when_it_is_opened,
    an_ask_for_two_semaphores_keeps_its_place_on_both,
    a_mutex_goes_to_the_next_at_whichever_process,
    a_writer_comes_between_the_readers_of_another_process,
    a_waiter_that_calls_again_keeps_its_place_against_another_process,
);

async fn waiters_for_a_closed_semaphore_have_their_places_when_it_is_opened(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    let (served, mut waiters) = (Served::default(), Vec::new());
    for (client, id) in [(&one, "first"), (&two, "second"), (&one, "third")] {
        waiters.push(served.waits(client, ask(id, &[("s", 1)]), A_MOMENT));
        until_waiting(&place, "s", waiters.len() as u32).await;
        sleep(APART).await;
    }
    two.define("s", 0).await.unwrap();
    one.release("held").await.unwrap();
    sleep(PASSED_OVER).await;
    assert!(served.ids().is_empty(), "{:?}", served.ids());
    let opened = Instant::now();
    two.define("s", 1).await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(opened, &["first", "second", "third"]);
    place.clear().await;
}

async fn an_ask_for_two_semaphores_keeps_its_place_on_both(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    for name in ["x", "y"] {
        one.define(name, 1).await.unwrap();
        hold(&one, &format!("holds-{name}"), &[(name, 1)]).await;
    }
    let (x, y) = (("x", 1), ("y", 1));
    let (served, mut waiters) = (Served::default(), Vec::new());
    waiters.push(served.waits(&one, ask("for-x", &[x]), A_MOMENT));
    sleep(APART).await;
    waiters.push(served.waits(&two, ask("for-both", &[x, y]), A_MOMENT));
    sleep(APART).await;
    waiters.push(served.waits(&one, ask("for-y", &[y]), A_MOMENT));
    sleep(APART).await;
    one.release("holds-y").await.unwrap();
    // The waiter for both lacks x, and its process writes that into the line.
    sleep(PASSED_OVER).await;
    assert!(served.ids().is_empty(), "{:?}", served.ids());
    one.release("holds-x").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    assert_eq!(served.ids(), ["for-x", "for-both", "for-y"]);
    place.clear().await;
}

type Locked = JoinHandle<Result<Permit, lockhouse::Error>>;

fn locks(lockhouse: &Lockhouse, name: &'static str) -> Locked {
    let mutex = lockhouse.mutex(name);
    tokio::spawn(async move { mutex.lock().await })
}

async fn a_mutex_goes_to_the_next_at_whichever_process(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    let mut held = one.mutex("m").lock().await.unwrap();
    let mut waiting = Vec::new();
    for (client, number) in [(&two, 1), (&one, 2), (&two, 3), (&two, 4), (&one, 5)] {
        waiting.push(locks(client, "m"));
        until_waiting(&place, "m", number).await;
        sleep(APART).await;
    }
    for next in 0..waiting.len() {
        held.release().await.unwrap();
        held = (&mut waiting[next]).await.unwrap().unwrap();
        sleep(A_MOMENT).await;
        let later = &waiting[next + 1..];
        assert!(!later.iter().any(Locked::is_finished), "after {next}");
    }
    held.release().await.unwrap();
    place.clear().await;
}

async fn a_writer_comes_between_the_readers_of_another_process(place: Place) {
    let (readers, writers) = (place.client().await, place.client().await);
    let (readers, writers) = (readers.rwlock("rw"), writers.rwlock("rw"));
    let reading = readers.read().await.unwrap();
    let writer = writers.clone();
    let writing = tokio::spawn(async move { writer.write().await });
    until_waiting(&place, "rw", 1).await;
    sleep(APART).await;
    let later = [(); 3].map(|()| {
        let reader = readers.clone();
        tokio::spawn(async move { reader.read().await })
    });
    until_waiting(&place, "rw", 4).await;
    // The readers would have room, but the writer is before them.
    sleep(PASSED_OVER).await;
    assert!(!later.iter().any(JoinHandle::is_finished));
    let refused = readers.try_read().await.unwrap_err();
    assert_eq!(refused.code(), Code::Exhausted);
    reading.release().await.unwrap();
    let writing = writing.await.unwrap().unwrap();
    sleep(A_MOMENT).await;
    assert!(!later.iter().any(JoinHandle::is_finished));
    writing.release().await.unwrap();
    for reader in later {
        reader.await.unwrap().unwrap().release().await.unwrap();
    }
    place.clear().await;
}

/// Each call begins before the previous call ends, as clients of a server do.
async fn a_waiter_that_calls_again_keeps_its_place_against_another_process(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    hold(&two, "held", &[("s", 1)]).await;
    let call = || {
        let one = one.clone();
        tokio::spawn(async move {
            let wants = ask("first", &[("s", 1)]);
            one.acquire(wants, Duration::from_secs(2)).await
        })
    };
    let served = Served::default();
    let mut first = call();
    sleep(APART).await;
    let second = served.waits(&two, ask("second", &[("s", 1)]), A_MOMENT);
    for _ in 0..4 {
        sleep(Duration::from_millis(1_000)).await;
        let next = call();
        let ended = first.await.unwrap().unwrap_err();
        assert_eq!(ended.code(), Code::Exhausted);
        first = next;
    }
    two.release("held").await.unwrap();
    let (_, is_new) = first.await.unwrap().unwrap();
    assert!(is_new && served.ids().is_empty(), "{:?}", served.ids());
    one.release("first").await.unwrap();
    second.granted().await;
    place.clear().await;
}
