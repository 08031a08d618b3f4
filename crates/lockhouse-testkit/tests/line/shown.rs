//! The waiters of every process can be listed at any.

use std::time::Duration;

use lockhouse::{Code, Lockhouse, Owner, Timestamp, Waiter};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::{self, Place};
use tokio::time::{Instant, sleep};

use crate::queue::{Doomed, Served, ask, hold, preferred, until_waiting};

const A_MOMENT: Duration = Duration::from_millis(5);

on_each_store!(
    waiters_of_two_processes_are_listed_in_order_by_a_third,
    the_waiters_of_a_dead_process_vanish,
);

on_each_store!(sql: lists_that_processes_left_behind_are_deleted);

/// The list of `lockhouse`, once it is `as_expected`.
async fn listed(
    lockhouse: &Lockhouse,
    within: Duration,
    as_expected: impl Fn(&[Waiter]) -> bool,
) -> Vec<Waiter> {
    let begun = Instant::now();
    loop {
        let listed = lockhouse.waiting("s").await.unwrap();
        if as_expected(&listed) {
            return listed;
        }
        assert!(begun.elapsed() < within, "{listed:#?}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn ids(waiters: &[Waiter]) -> Vec<&str> {
    let ids = waiters.iter().map(|waiter| waiter.external_id.as_str());
    ids.collect()
}

async fn waiters_of_two_processes_are_listed_in_order_by_a_third(place: Place) {
    let (one, two, three) = (
        place.client().await,
        place.client().await,
        place.client().await,
    );
    assert_eq!(
        three.waiting("s").await.unwrap_err().code(),
        Code::UnknownSemaphore
    );
    one.define("s", 2).await.unwrap();
    one.define("t", 1).await.unwrap();
    assert_eq!(three.waiting("s").await.unwrap(), []);
    hold(&one, "held", &[("s", 2), ("t", 1)]).await;
    let served = Served::default();
    let begun = Timestamp::now();
    let mut owned = ask("first", &[("s", 2)]);
    owned.owner = Some(Owner::parse("ann").unwrap());
    let waiting = [
        (&one, owned),
        (&two, ask("second", &[("t", 1), ("s", 1)])),
        (&one, ask("third", &[("s", 1)])),
        (&two, preferred(ask("urgent", &[("s", 1)]), 1)),
    ];
    let mut waiters = Vec::new();
    for (at, wants) in waiting {
        let id = wants.external_id.clone();
        waiters.push(served.waits(at, wants, A_MOMENT));
        let is_there = |waiters: &[Waiter]| waiters.iter().any(|w| w.external_id == id);
        listed(at, Duration::from_secs(5), is_there).await;
        // Other processes see a list only after its write.
        sleep(Duration::from_millis(300)).await;
    }
    for client in [&three, &one, &two] {
        let within = Duration::from_secs(8);
        let waiters = listed(client, within, |waiters| waiters.len() == 4).await;
        assert_eq!(ids(&waiters), ["urgent", "first", "second", "third"]);
        let [urgent, first, second, _] = waiters.as_slice() else {
            panic!("{waiters:#?}");
        };
        assert_eq!(first.owner.as_ref().map(Owner::as_str), Some("ann"));
        assert_eq!((first.count.value(), second.count.value()), (2, 1));
        assert_eq!((urgent.priority.value(), first.priority.value()), (1, 0));
        let lacks = |waiter: &Waiter| waiter.lacks.iter().map(|n| n.to_string()).collect();
        let lacking: [Vec<String>; 2] = [lacks(first), lacks(second)];
        assert_eq!(lacking, [vec!["s"], vec!["s", "t"]]);
        for waiter in &waiters {
            // The store's clock may be that of another machine.
            let since = waiter.since.duration_since(begun).as_secs_f64();
            assert!((-1.0..30.0).contains(&since), "{waiter:#?}");
        }
        assert!(first.since < second.since && second.since < urgent.since);
    }
    one.release("held").await.unwrap();
    for waiter in waiters {
        waiter.granted().await;
    }
    listed(&three, Duration::from_secs(8), <[Waiter]>::is_empty).await;
    place.clear().await;
}

async fn the_waiters_of_a_dead_process_vanish(place: Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    let doomed = Doomed::waits(place.client().await, "doomed".to_owned());
    until_waiting(&place, "s", 1).await;
    listed(&two, Duration::from_secs(5), |waiters| {
        ids(waiters) == ["doomed"]
    })
    .await;
    drop(doomed);
    // The dead waiter is counted for at most the time of two writes of a list.
    let begun = Instant::now();
    until_waiting(&place, "s", 0).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    listed(&two, Duration::from_secs(20), <[Waiter]>::is_empty).await;
    one.release("held").await.unwrap();
    place.clear().await;
}

async fn lists_that_processes_left_behind_are_deleted(place: Place) {
    let (one, store) = (
        place.client().await,
        lockhouse_stores::open(place.url()).unwrap(),
    );
    one.define("s", 1).await.unwrap();
    hold(&one, "held", &[("s", 1)]).await;
    let served = Served::default();
    let waits = served.waits(&one, ask("waits", &[("s", 1)]), A_MOMENT);
    let two = place.client().await;
    listed(&two, Duration::from_secs(5), |waiters| waiters.len() == 1).await;
    let hour = Duration::from_secs(3_600);
    assert_eq!(store.forget_shown(hour, 10).await.unwrap(), 0);
    place::run_on(&place, "UPDATE lockhouse_waiting SET waiters='nonsense'").await;
    assert_eq!(two.waiting("s").await.unwrap(), []);
    assert_eq!(store.forget_shown(Duration::ZERO, 10).await.unwrap(), 1);
    one.release("held").await.unwrap();
    waits.granted().await;
    place.clear().await;
}
