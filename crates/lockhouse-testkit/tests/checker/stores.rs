//! The real stores break nothing, with all their rows in view; and without their locks they do.

use std::collections::BTreeSet;

use lockhouse::Lockhouse;
use lockhouse_testkit::drill::Drill;
use lockhouse_testkit::history::{check, overtaken};
use lockhouse_testkit::place::Place;
use lockhouse_testkit::rows;

use crate::variants::said;

lockhouse_testkit::on_each_store!(a_drill_breaks_nothing);

/// P1 to P11.
async fn a_drill_breaks_nothing(place: Place) {
    let mut clients: Vec<Lockhouse> = Vec::new();
    for _ in 0..4 {
        clients.push(place.client().await);
    }
    let history = Drill::new(clients, |_| {}).run().await;
    let rows = rows::read(place.url()).await;
    let found = check(&history, Some(&rows));
    assert!(found.is_empty(), "{}", said(&found));
    let (found, decided) = overtaken(&history, &[]);
    assert!(found.is_empty(), "{}", said(&found));
    assert!(decided > 0, "nothing was decided of P11");
    let windows = lockhouse_testkit::linear::windows(&history);
    assert!(windows.broken.is_empty(), "{:?}", windows.broken);
    assert!(windows.linearizable > 10, "{windows:?}");
    let ids: BTreeSet<_> = history
        .iter()
        .filter_map(|operation| operation.id())
        .collect();
    assert!(ids.len() > 30, "{ids:?}");
    place.clear().await;
}
