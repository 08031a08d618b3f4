//! By which index a purge locks its rows.

use std::time::Duration;

use lockhouse_core::store::Purge;

use super::super::purge::lock;
use super::super::sql::{CLOCK, Text};
use super::{database, explain, fill, lend, remove, run};
use crate::sql::{list, rows};

const ROWS: usize = 2_000;

/// P12. The rows became old after the server had counted them, so it takes rows of that age for rare.
#[tokio::test]
async fn a_purge_locks_its_rows_by_their_keys() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    fill(&store, 0, ROWS).await;
    let mut lease = lend(&store).await;
    run(&mut lease, "ANALYZE").await;
    let hour_ago = "clock_timestamp()-INTERVAL '1 HOUR'";
    let aged = [
        format!("UPDATE lockhouse_semaphore SET deleted_at={hour_ago}"),
        format!("UPDATE lockhouse_permit_request SET state='RELEASED',released_at={hour_ago}"),
        format!("UPDATE lockhouse_owner_session SET expires_at={hour_ago}"),
    ];
    for statement in aged {
        run(&mut lease, &statement).await;
    }
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let age = Duration::ZERO;
    let kinds = [
        (Purge::Semaphores { age }, "s", "name"),
        (Purge::Requests { age }, "r", "external_id"),
        (Purge::Sessions { age }, "w", "owner"),
    ];
    for (what, letter, key) in kinds {
        for asked in [1, 64, 800] {
            let keys = (0..asked).map(|i| Text(&format!("{letter}{i:06}")).to_string());
            let script = lock(what, now, &list(keys));
            let (_, statement) = script.text().split_once(';').unwrap();
            let plan = explain(&mut lease, "EXPLAIN", statement).await;
            let conditions = plan.lines().filter(|line| line.contains("Index Cond"));
            let conditions: Vec<_> = conditions.collect();
            let is_by_key = matches!(conditions[..], [one] if one.contains(&format!("({key} = ")));
            assert!(is_by_key, "{asked} of {what:?}:\n{plan:.900}");
        }
    }
    drop(lease);
    remove(&base, &database).await;
}
