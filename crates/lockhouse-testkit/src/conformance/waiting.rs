//! Waiting for room.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse::{Ask, Code, Error, Lockhouse, Priority, Refusal, Request};
use tokio::task::JoinHandle;

use super::steps::{SOON, ask, eventually, grant, in_use, name, refusal};
use crate::place::Place;

/// The release comes through the same client, and through another one.
pub async fn a_waiter_is_granted_when_permits_are_released(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "first", &[("s", 1)]).await.unwrap();
    for (releaser, last, next) in [(&one, "first", "second"), (&two, "second", "third")] {
        let waiting = tokio::spawn({
            let one = one.clone();
            async move { one.acquire(ask(next, &[("s", 1)]), SOON).await }
        });
        eventually("it waits", async || {
            one.status("s").await.unwrap().waiting == 1
        })
        .await;
        releaser.release(last).await.unwrap();
        let (request, now) = waiting.await.unwrap().unwrap();
        assert!(now);
        assert_eq!(request.external_id.as_str(), next);
    }
    assert_eq!(in_use(&one, "s").await, 1);
}

/// A resize makes room, as a release does.
pub async fn a_waiter_is_granted_when_the_capacity_grows(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { lockhouse.acquire(ask("b", &[("s", 1)]), SOON).await }
    });
    eventually("it waits", async || {
        lockhouse.status("s").await.unwrap().waiting == 1
    })
    .await;
    lockhouse.define("s", 2).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 2);
}

/// P5, P10: a later call may use the same id.
pub async fn a_wait_ends_in_time_and_holds_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let began = Instant::now();
    let waited = lockhouse
        .acquire(ask("b", &[("s", 1)]), Duration::from_millis(300))
        .await;
    assert_eq!(refusal(waited), Refusal::Exhausted(vec![name("s")]));
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < SOON / 2,
        "{took:?}"
    );
    lockhouse.release("a").await.unwrap();
    assert_eq!(in_use(&lockhouse, "s").await, 0);
    grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();
}

/// A waiter counts on each semaphore that it waits for.
pub async fn waiters_are_counted(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    lockhouse.define("t", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    assert_eq!(lockhouse.status("s").await.unwrap().waiting, 0);
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move {
            lockhouse
                .acquire(ask("b", &[("s", 1), ("t", 1)]), SOON)
                .await
        }
    });
    eventually("it is counted", async || {
        let on_s = lockhouse.status("s").await.unwrap().waiting;
        on_s == 1 && lockhouse.status("t").await.unwrap().waiting == 1
    })
    .await;
    lockhouse.release("a").await.unwrap();
    waiting.await.unwrap().unwrap();
    let listed = lockhouse.semaphores(None, 10).await.unwrap();
    assert!(
        listed.iter().all(|status| status.waiting == 0),
        "{listed:?}"
    );
}

/// P10: an ask whose caller has given up is not granted, or its grant ends by itself.
pub async fn giving_up_a_wait_leaves_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { lockhouse.semaphore("s").acquire().await }
    });
    eventually("it waits", async || {
        lockhouse.status("s").await.unwrap().waiting == 1
    })
    .await;
    waiting.abort();
    eventually("it no longer waits", async || {
        lockhouse.status("s").await.unwrap().waiting == 0
    })
    .await;
    lockhouse.release("a").await.unwrap();
    eventually("nothing is held", async || {
        in_use(&lockhouse, "s").await == 0
    })
    .await;
    grant(&lockhouse, "b", &[("s", 1)]).await.unwrap();
}

/// Each release serves the next waiter, however many wait, and no waiter gets the error that the store is down.
pub async fn a_crowd_that_waits_is_served(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let crowd = (0..300).map(|_| async {
        let permit = lockhouse.semaphore("s").acquire().await.unwrap();
        permit.release().await.unwrap();
    });
    let served = tokio::time::timeout(2 * SOON, join_all(crowd));
    served.await.expect("all are served");
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}

type Call = JoinHandle<Result<(Request, bool), Error>>;

/// Starts a call, and waits until it is the `place`th in the line of the first semaphore that it names.
async fn in_line(lockhouse: &Lockhouse, ask: Ask, place: u32) -> Call {
    let on = ask.permits().next().unwrap().0.clone();
    let waiting = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { lockhouse.acquire(ask, SOON).await }
    });
    eventually("it waits", async || {
        lockhouse.status(&on).await.unwrap().waiting == place
    })
    .await;
    waiting
}

async fn fence(call: Call) -> u64 {
    call.await.unwrap().unwrap().0.permits[0].fence
}

/// P11.
pub async fn the_first_waiter_is_served_first(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let mut line = Vec::new();
    for i in 1..=10 {
        let asked = ask(&format!("r{i}"), &[("s", 1)]);
        line.push(in_line(&lockhouse, asked, i).await);
    }
    lockhouse.release("a").await.unwrap();
    for (i, call) in (2..).zip(line) {
        let (request, _) = call.await.unwrap().unwrap();
        assert_eq!(request.permits[0].fence, i);
        lockhouse.release(&request.external_id).await.unwrap();
    }
}

/// P11: asks for another semaphore of the large ask do not overtake it either, nor do asks without a wait.
pub async fn small_asks_do_not_overtake_a_large_one(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    lockhouse.define("t", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let big = in_line(&lockhouse, ask("big", &[("s", 3), ("t", 1)]), 1).await;
    let small = in_line(&lockhouse, ask("small", &[("s", 1)]), 2).await;
    for on in ["s", "t"] {
        let tried = refusal(grant(&lockhouse, "tries", &[(on, 1)]).await);
        assert_eq!(tried, Refusal::Exhausted(vec![name(on)]));
    }
    let again = grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    assert_eq!(
        again.permits[0].fence, 1,
        "a holder that asks again gets its grant"
    );
    lockhouse.release("a").await.unwrap();
    assert_eq!(fence(big).await, 2);
    assert!(!small.is_finished());
    lockhouse.release("big").await.unwrap();
    assert_eq!(fence(small).await, 3);
}

/// P11: within one priority, waiters are served in the order of arrival.
pub async fn a_higher_priority_comes_first(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    let mut line = Vec::new();
    for (i, (id, priority)) in (1..).zip([("low", -3), ("first", 9), ("second", 9)]) {
        let mut asked = ask(id, &[("s", 1)]);
        asked.priority = Priority::new(priority).unwrap();
        line.push(in_line(&lockhouse, asked, i).await);
    }
    let low = line.remove(0);
    lockhouse.release("a").await.unwrap();
    for (call, id) in line.into_iter().zip(["first", "second"]) {
        call.await.unwrap().unwrap();
        assert!(!low.is_finished());
        lockhouse.release(id).await.unwrap();
    }
    low.await.unwrap().unwrap();
}

/// A closed semaphore is paused. Asks that wait are granted when it opens, through any client.
pub async fn asks_wait_while_the_semaphore_is_closed(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "a", &[("s", 1)]).await.unwrap();
    let waits = in_line(&one, ask("waits", &[("s", 1)]), 1).await;
    for closer in [&one, &two] {
        closer.define("s", 0).await.unwrap();
    }
    one.release("a").await.unwrap();
    let new = in_line(&one, ask("new", &[("s", 1)]), 2).await;
    let tried = refusal(grant(&one, "tried", &[("s", 1)]).await);
    assert_eq!(tried.code(), Code::Exhausted);
    let wait = Duration::from_millis(300);
    let short = refusal(one.acquire(ask("short", &[("s", 1)]), wait).await);
    assert_eq!(short.code(), Code::Exhausted);
    assert!(!waits.is_finished() && !new.is_finished());
    two.define("s", 1).await.unwrap();
    waits.await.unwrap().unwrap();
    assert!(!new.is_finished());
    one.release("waits").await.unwrap();
    new.await.unwrap().unwrap();
}

/// P11: a waiter for a closed semaphore reserves nothing on its other semaphores.
pub async fn a_waiter_on_a_closed_semaphore_holds_up_nobody_on_others(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("closed", 0).await.unwrap();
    lockhouse.define("s", 1).await.unwrap();
    let both = ask("both", &[("closed", 1), ("s", 1)]);
    let both = in_line(&lockhouse, both, 1).await;
    grant(&lockhouse, "a", &[("s", 1)]).await.unwrap();
    lockhouse.release("a").await.unwrap();
    assert!(!both.is_finished());
    lockhouse.define("closed", 1).await.unwrap();
    both.await.unwrap().unwrap();
}

/// Any client may delete the semaphore.
pub async fn a_waiter_is_refused_when_its_semaphore_is_deleted(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("held", 1).await.unwrap();
    grant(&one, "a", &[("held", 1)]).await.unwrap();
    for deleter in [&one, &two] {
        one.define("s", 1).await.unwrap();
        let waits = in_line(&one, ask("waits", &[("held", 1), ("s", 1)]), 1).await;
        deleter.delete("s").await.unwrap();
        let told = refusal(waits.await.unwrap());
        assert_eq!(told, Refusal::UnknownSemaphore(vec![name("s")]));
    }
}

/// P10, as in curator 835, 982 and 855: an interrupted acquire left an orphan, and no lease was granted any more. Here
/// callers give up at any moment, while permits are granted and released.
pub async fn interrupted_waits_leave_no_orphan(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let calls = (0..200_u64).map(|i| {
        let lockhouse = lockhouse.clone();
        async move {
            let patience = Duration::from_micros(i % 40 * 500);
            let semaphore = lockhouse.semaphore("s");
            if let Ok(permit) = tokio::time::timeout(patience, semaphore.acquire()).await {
                permit.unwrap().release().await.unwrap();
            }
        }
    });
    tokio::time::timeout(SOON, join_all(calls)).await.unwrap();
    let begun = Instant::now();
    loop {
        let status = lockhouse.status("s").await.unwrap();
        if (status.waiting, status.semaphore.in_use) == (0, 0) {
            break;
        }
        let held = async || {
            lockhouse
                .holders(Some(&name("s")), None, 100)
                .await
                .unwrap()
        };
        let late = begun.elapsed() > SOON;
        assert!(!late, "not given back: {status:?} by {:?}", held().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all = lockhouse.semaphore("s").acquire_many(2).await.unwrap();
    all.release().await.unwrap();
}

/// As in redisson 6664 and 5762, and prefect 23183: a waiter slept though permits were free. Here permits return at the
/// very moment at which a call begins to wait, through either client.
pub async fn no_waiter_sleeps_while_there_is_room(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 2).await.unwrap();
    for i in 0..40_u32 {
        let id = |role: &str| format!("{role}-{i}");
        grant(&one, &id("held"), &[("s", 2)]).await.unwrap();
        let releaser = if i % 2 == 0 { &one } else { &two };
        let release = async {
            tokio::time::sleep(Duration::from_micros(u64::from(i) * 100)).await;
            releaser.release(id("held")).await.unwrap();
        };
        let (first, second) = (
            ask(&id("first"), &[("s", 1)]),
            ask(&id("second"), &[("s", 1)]),
        );
        let both = async { tokio::join!(one.acquire(first, SOON), one.acquire(second, SOON)) };
        let both = tokio::time::timeout(SOON / 2, both);
        let (answers, ()) = tokio::join!(both, release);
        let (first, second) = answers.expect("there is room for both");
        for request in [first.unwrap().0, second.unwrap().0] {
            one.release(&request.external_id).await.unwrap();
        }
    }
}

/// As in consul 1006: a handover took up to 5 s. The release also comes through another client, which the waiter finds out
/// by polling.
pub async fn handing_over_takes_no_seconds(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "r0", &[("s", 1)]).await.unwrap();
    let mut took = Vec::new();
    for i in 0..15 {
        let next = in_line(&two, ask(&format!("r{}", i + 1), &[("s", 1)]), 1).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
        let begun = Instant::now();
        one.release(format!("r{i}")).await.unwrap();
        next.await.unwrap().unwrap();
        took.push(begun.elapsed());
    }
    took.sort();
    assert!(took[7] < Duration::from_secs(1), "{took:?}");
    assert!(took[14] < Duration::from_secs(3), "{took:?}");
}
