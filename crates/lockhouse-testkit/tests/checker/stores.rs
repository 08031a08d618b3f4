//! The real stores break no promise, as all their rows show. Without their locks they do.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_testkit::drill::Drill;
use lockhouse_testkit::history::{Rows, Violation, check, overtaken, slow_commits};
use lockhouse_testkit::place::Place;
use lockhouse_testkit::rows;

use crate::variants::said;

lockhouse_testkit::on_each_store!(a_drill_breaks_nothing);

/// P1 to P11. On a busy machine a drill may decide nothing about P11, so up to three are run.
async fn a_drill_breaks_nothing(place: Place) {
    let mut in_order = Err(String::new());
    for _ in 0..3 {
        let own = place.beside().await;
        in_order = drill(&own).await;
        own.clear().await;
        match &in_order {
            Ok(()) => break,
            Err(why) => println!("{why}"),
        }
    }
    in_order.unwrap();
    place.clear().await;
}

/// Runs a drill, which breaks no promise. The error says why it decides nothing about the order of waiters.
async fn drill(place: &Place) -> Result<(), String> {
    let mut clients: Vec<Lockhouse> = Vec::new();
    for _ in 0..4 {
        clients.push(place.client().await);
    }
    let history = Drill::new(clients, |_| {}).run().await;
    let rows = rows::read(place.url()).await;
    let found = check(&history, Some(&rows));
    assert!(found.is_empty(), "{}", said(&found));
    let windows = lockhouse_testkit::linear::windows(&history);
    assert!(windows.broken.is_empty(), "{:?}", windows.broken);
    assert!(windows.linearizable > 10, "{windows:?}");
    let ids: BTreeSet<_> = history
        .iter()
        .filter_map(|operation| operation.id())
        .collect();
    assert!(ids.len() > 30, "{ids:?}");
    let (found, decided) = overtaken(&history, &slow_commits(&history));
    for one in &found {
        let free_for = free_before_overtaking(one, &rows);
        assert!(free_for >= LEFT_FOR, "{one}\nit was free for {free_for:?}");
    }
    match found.is_empty() && decided > 0 {
        true => Ok(()),
        false => Err(format!(
            "{decided} pairs were decided for P11\n{}",
            said(&found)
        )),
    }
}

/// A free permit is left to the next process of a line for 700 ms. A process that does not take it may be passed over. The test
/// allows less, since the store's clock may advance between a release and its commit.
const LEFT_FOR: Duration = Duration::from_millis(600);

/// How long, by the store's clock, the only permit that a waiter wanted had been free when a later waiter got it.
fn free_before_overtaking(overtaken: &Violation, rows: &Rows) -> Duration {
    let [waiter, later] = &overtaken.operations[..] else {
        panic!("{overtaken}: not two asks")
    };
    let semaphore = &waiter.asked().unwrap().permits[0].0;
    let of_it = || {
        rows.permits
            .iter()
            .filter(|row| row.semaphore == *semaphore)
    };
    let its = of_it().find(|row| Some(row.external_id.as_str()) == later.id());
    let granted = its.unwrap().granted_at;
    let released = of_it().filter_map(|row| row.released_at);
    let freed = released.filter(|at| *at <= granted).max();
    Duration::from_micros(granted.abs_diff(freed.unwrap_or(granted)))
}
