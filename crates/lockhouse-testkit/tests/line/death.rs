//! A process that dies while its callers wait delays other waiters only briefly.

use std::time::Duration;

use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep};

use crate::queue::{Doomed, Served, ask, hold, until_waiting};

const A_MOMENT: Duration = Duration::from_millis(5);

/// A live process claims within its pause of 500 ms between polls, and a busy machine may add as much.
const SOON: Duration = Duration::from_secs(1);

on_each_store!(
    a_dead_process_is_passed_over,
    six_dead_of_twelve_are_passed_over,
    dead_processes_delay_the_line_once,
);

/// The grants to waiters behind those of dead processes.
struct Seen {
    served: Served,
    /// How long after the grant before it, or after the release, each live waiter was granted.
    pauses: Vec<Duration>,
    /// The most entries of the line that were left after the first grant.
    left: usize,
}

/// Lets `waiting` processes wait in the line, and kills the first `dead` of them.
async fn pause(place: &Place, waiting: u32, dead: u32) -> Seen {
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
    let (mut pauses, mut left) = (Vec::new(), 0);
    for waiter in alive {
        let granted = waiter.granted().await;
        pauses.push(granted.saturating_duration_since(last));
        last = granted.max(last);
        let line = holder.status("s").await.unwrap().semaphore.line;
        left = line.entries().len().max(left);
    }
    println!("paused for {pauses:?}");
    Seen {
        served,
        pauses,
        left,
    }
}

async fn a_dead_process_is_passed_over(place: Place) {
    let Seen { pauses, .. } = pause(&place, 2, 1).await;
    assert!(pauses[0] < Duration::from_millis(1_500), "{pauses:?}");
    place.clear().await;
}

async fn six_dead_of_twelve_are_passed_over(place: Place) {
    let Seen { pauses, left, .. } = pause(&place, 12, 6).await;
    assert!(pauses[0] < Duration::from_secs(3), "{pauses:?}");
    assert!(pauses[1..].iter().all(|pause| *pause < SOON), "{pauses:?}");
    assert!(left < 6, "{left}");
    place.clear().await;
}

/// The first grant removes the entries of all dead processes from the line.
async fn dead_processes_delay_the_line_once(place: Place) {
    let Seen {
        served,
        pauses,
        left,
    } = pause(&place, 6, 2).await;
    assert_eq!(served.ids(), ["2", "3", "4", "5"]);
    assert!(pauses[1..].iter().all(|pause| *pause < SOON), "{pauses:?}");
    assert!(left < 4, "{left}");
    place.clear().await;
}
