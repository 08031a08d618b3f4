//! Arrival and priority decide, whichever process a caller waits at.

use std::time::Duration;

use lockhouse::Code;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::{self, Place};
use tokio::time::{Instant, sleep};

use crate::queue::{LONG, REGISTERED, Served, ask, hold, preferred, until_waiting};

const A_MOMENT: Duration = Duration::from_millis(5);

on_each_store!(
    six_processes_are_served_in_the_order_in_which_they_came,
    sixteen_processes_that_stood_still_are_served_in_their_order,
    a_priority_of_100_comes_first_at_any_process,
    an_ask_that_does_not_wait_goes_past_nobody,
    waiters_are_counted_over_all_processes,
    a_large_ask_is_not_starved_by_small_ones_elsewhere,
    asks_for_several_semaphores_at_two_processes_all_come_through,
    waiters_everywhere_hear_of_a_resize,
    waiters_everywhere_hear_of_a_deletion,
    a_waiter_that_leaves_keeps_nobody_waiting,
    a_corrupt_line_breaks_nothing,
);

async fn six_processes_are_served_in_the_order_in_which_they_came(place: Place) {
    let holder = place.client().await;
    holder.define("s", 1).await.unwrap();
    hold(&holder, "held", &[("s", 1)]).await;
    let (served, mut waiters) = (Served::default(), Vec::new());
    for i in 1..=6 {
        let client = place.client().await;
        let wants = ask(&i.to_string(), &[("s", 1)]);
        waiters.push(served.waits(&client, wants, A_MOMENT));
        until_waiting(&place, "s", i).await;
        sleep(Duration::from_millis(300)).await;
    }
    let released = Instant::now();
    holder.release("held").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(released, &["1", "2", "3", "4", "5", "6"]);
    place.clear().await;
}

/// Each process polls seldom after such a time, and then the line moves every few milliseconds.
async fn sixteen_processes_that_stood_still_are_served_in_their_order(place: Place) {
    let holder = place.client().await;
    holder.define("s", 1).await.unwrap();
    hold(&holder, "held", &[("s", 1)]).await;
    let (served, mut waiters, mut expected) = (Served::default(), Vec::new(), Vec::new());
    for i in 1..=16 {
        let client = place.client().await;
        expected.push(i.to_string());
        waiters.push(served.waits(&client, ask(&i.to_string(), &[("s", 1)]), A_MOMENT));
        until_waiting(&place, "s", i).await;
        sleep(Duration::from_millis(200)).await;
    }
    sleep(Duration::from_secs(3)).await;
    let released = Instant::now();
    holder.release("held").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(released, &expected);
    place.clear().await;
}

async fn a_priority_of_100_comes_first_at_any_process(place: Place) {
    let holder = place.client().await;
    holder.define("s", 1).await.unwrap();
    hold(&holder, "held", &[("s", 1)]).await;
    let (served, mut waiters) = (Served::default(), Vec::new());
    for (id, priority) in [("first", 0), ("second", 0), ("urgent", 100)] {
        let client = place.client().await;
        let wants = preferred(ask(id, &[("s", 1)]), priority);
        waiters.push(served.waits(&client, wants, A_MOMENT));
        until_waiting(&place, "s", waiters.len() as u32).await;
        sleep(Duration::from_millis(300)).await;
    }
    let released = Instant::now();
    holder.release("held").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(released, &["urgent", "first", "second"]);
    place.clear().await;
}

async fn an_ask_that_does_not_wait_goes_past_nobody(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 2).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    let served = Served::default();
    let large = served.waits(&two, ask("large", &[("s", 2)]), A_MOMENT);
    until_waiting(&place, "s", 1).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let tried = one.acquire(ask("small", &[("s", 1)]), Duration::ZERO).await;
        assert_eq!(
            tried.unwrap_err().code(),
            Code::Exhausted,
            "one permit is free"
        );
        sleep(Duration::from_millis(50)).await;
    }
    one.release("held").await.unwrap();
    large.granted().await;
    place.clear().await;
}

async fn waiters_are_counted_over_all_processes(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    let served = Served::default();
    let here = served.waits(&one, ask("here", &[("s", 1)]), A_MOMENT);
    let there = ["there", "too"].map(|id| served.waits(&two, ask(id, &[("s", 1)]), A_MOMENT));
    until_waiting(&place, "s", 3).await;
    one.release("held").await.unwrap();
    here.granted().await;
    for waiter in there {
        waiter.granted().await;
    }
    until_waiting(&place, "s", 0).await;
    place.clear().await;
}

async fn a_large_ask_is_not_starved_by_small_ones_elsewhere(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 3).await.unwrap();
    let served = Served::default();
    for i in 0..3 {
        hold(&one, &format!("held-{i}"), &[("s", 1)]).await;
    }
    let large = served.waits(&two, ask("large", &[("s", 3)]), A_MOMENT);
    sleep(REGISTERED).await;
    let small: Vec<_> = (0..9)
        .map(|i| served.waits(&one, ask(&format!("small-{i}"), &[("s", 1)]), A_MOMENT))
        .collect();
    for i in 0..3 {
        one.release(format!("held-{i}")).await.unwrap();
        // The large waiter cannot use the free permits, and its process writes that into the line.
        sleep(Duration::from_millis(900)).await;
        assert!(i == 2 || served.ids().is_empty(), "{:?}", served.ids());
    }
    large.granted().await;
    for waiter in small {
        waiter.granted().await;
    }
    assert_eq!(served.ids()[0], "large");
    place.clear().await;
}

async fn asks_for_several_semaphores_at_two_processes_all_come_through(place: Place) {
    let clients = [place.client().await, place.client().await];
    for name in ["x", "y", "z"] {
        clients[0].define(name, 1).await.unwrap();
    }
    let served = Served::default();
    let wants = [["x", "y"], ["y", "z"], ["z", "x"]];
    let waiters: Vec<_> = (0..24)
        .map(|i| {
            let wants = wants[i % 3].map(|name| (name, 1));
            served.waits(&clients[i % 2], ask(&i.to_string(), &wants), A_MOMENT)
        })
        .collect();
    for waiter in waiters {
        waiter.granted().await;
    }
    assert_eq!(served.ids().len(), 24);
    place.clear().await;
}

async fn waiters_everywhere_hear_of_a_resize(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 0).await.unwrap();
    let served = Served::default();
    let small = served.waits(&two, ask("small", &[("s", 1)]), A_MOMENT);
    let large = served.waits(&two, ask("large", &[("s", 5)]), A_MOMENT);
    sleep(REGISTERED).await;
    one.define("s", 1).await.unwrap();
    small.granted().await;
    sleep(REGISTERED).await;
    assert_eq!(served.ids(), ["small"]);
    one.define("s", 5).await.unwrap();
    large.granted().await;
    place.clear().await;
}

async fn waiters_everywhere_hear_of_a_deletion(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 0).await.unwrap();
    let waits = tokio::spawn(async move { two.acquire(ask("waits", &[("s", 1)]), LONG).await });
    until_waiting(&place, "s", 1).await;
    one.delete("s").await.unwrap();
    let told = waits.await.unwrap();
    assert_eq!(told.unwrap_err().code(), Code::UnknownSemaphore);
    one.define("s", 1).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    until_waiting(&place, "s", 0).await;
    place.clear().await;
}

async fn a_waiter_that_leaves_keeps_nobody_waiting(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    let leaves = two
        .acquire(ask("leaves", &[("s", 1)]), REGISTERED * 2)
        .await;
    assert_eq!(leaves.unwrap_err().code(), Code::Exhausted);
    until_waiting(&place, "s", 0).await;
    one.release("held").await.unwrap();
    hold(&one, "next", &[("s", 1)]).await;
    place.clear().await;
}

async fn a_corrupt_line_breaks_nothing(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    for text in [
        "nonsense",
        "1 2 3;4 5 6 7 8",
        "9000000000000000000 0 -;1 1 9000000000000000000 1 1",
    ] {
        let held = format!("held: {text}");
        hold(&one, &held, &[("s", 1)]).await;
        let served = Served::default();
        let waits = served.waits(&two, ask(&format!("waits: {text}"), &[("s", 1)]), A_MOMENT);
        sleep(REGISTERED).await;
        place::overwrite_line(&place, "s", text).await;
        one.release(&held).await.unwrap();
        waits.granted().await;
    }
    place.clear().await;
}
