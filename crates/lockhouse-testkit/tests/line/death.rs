//! A process that dies while its callers wait holds nobody up for long.

use std::time::Duration;

use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep};

use crate::queue::{Doomed, Served, ask, hold, until_waiting};

const A_MOMENT: Duration = Duration::from_millis(5);

/// Free permits are left to a silent process for at least so long.
const LEFT_TO_ONE: Duration = Duration::from_millis(700);

on_each_store!(
    a_dead_process_is_passed_over,
    six_dead_of_twelve_are_passed_over,
    dead_processes_delay_the_line_once,
);

/// These wait in the line, in their order, and `dead` of them die.
async fn pause(place: &Place, waiting: u32, dead: u32) -> (Served, Vec<Duration>) {
    let holder = place.client().await;
    holder.define("s", 1).await.unwrap();
    hold(&holder, "held", &[("s", 1)]).await;
    let (served, mut alive, mut doomed) = (Served::default(), Vec::new(), Vec::new());
    for i in 0..waiting {
        let (client, id) = (place.client().await, i.to_string());
        if i < dead {
            doomed.push(Doomed::waits(client, id));
        } else {
            alive.push(served.waits(&client, ask(&id, &[("s", 1)]), A_MOMENT));
        }
        until_waiting(place, "s", i + 1).await;
    }
    drop(doomed);
    sleep(Duration::from_millis(200)).await;
    let mut last = Instant::now();
    holder.release("held").await.unwrap();
    let mut pauses = Vec::new();
    for waiter in alive {
        let granted = waiter.granted().await;
        pauses.push(granted.saturating_duration_since(last));
        last = granted.max(last);
    }
    (served, pauses)
}

async fn a_dead_process_is_passed_over(place: Place) {
    let (_, pauses) = pause(&place, 2, 1).await;
    println!("paused for {pauses:?}");
    assert!(pauses[0] < Duration::from_millis(1_500), "{pauses:?}");
    place.clear().await;
}

async fn six_dead_of_twelve_are_passed_over(place: Place) {
    let (_, pauses) = pause(&place, 12, 6).await;
    println!("paused for {pauses:?}");
    assert!(pauses[0] < Duration::from_secs(3), "{pauses:?}");
    // A process that is alive claims within its pause of 500 ms between polls, and a busy machine may add to it.
    let later = pauses[1..].iter().max().unwrap();
    assert!(*later < 2 * LEFT_TO_ONE, "{pauses:?}");
    place.clear().await;
}

async fn dead_processes_delay_the_line_once(place: Place) {
    let (served, pauses) = pause(&place, 6, 2).await;
    println!("paused for {pauses:?}");
    assert_eq!(served.ids(), ["2", "3", "4", "5"]);
    let later = pauses[1..].iter().max().unwrap();
    assert!(*later < LEFT_TO_ONE, "{pauses:?}");
    place.clear().await;
}
