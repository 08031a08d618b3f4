//! By which index the upkeep finds rows that it knows by their keys.

use std::time::Duration;

use lockhouse_core::store::Purge;
use lockhouse_core::{ProcessId, Timestamp};

use super::super::due::stale;
use super::super::purge::lock;
use super::super::sql::{CLOCK, Text, Time};
use super::{PostgresServer, database, explain, fill, lend, remove, run};
use crate::sql::waiting_list::forget_one;
use crate::sql::{Lease, list, rows};

const ROWS: usize = 2_000;

/// P12. The rows became old after the server had counted them, so it takes rows of that age for rare.
#[tokio::test]
async fn the_upkeep_finds_rows_by_their_keys_whatever_the_statistics_say() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    fill(&store, 0, ROWS).await;
    let mut lease = lend(&store).await;
    let waiting = format!(
        "INSERT INTO lockhouse_waiting SELECT name,'{PROCESS}','',clock_timestamp() FROM lockhouse_semaphore"
    );
    run(&mut lease, &waiting).await;
    let changes = format!(
        "INSERT INTO lockhouse_capacity_change (semaphore_id,old_capacity,new_capacity,changed_at) \
         SELECT 1,1,2,clock_timestamp() FROM generate_series(1,{ROWS})"
    );
    run(&mut lease, &changes).await;
    run(&mut lease, "ANALYZE").await;
    let hour_ago = "clock_timestamp()-INTERVAL '1 HOUR'";
    let aged = [
        format!("UPDATE lockhouse_waiting SET written_at={hour_ago}"),
        format!("UPDATE lockhouse_semaphore SET deleted_at={hour_ago}"),
        format!("UPDATE lockhouse_capacity_change SET changed_at={hour_ago}"),
        format!("UPDATE lockhouse_permit_request SET state='RELEASED',released_at={hour_ago}"),
        "UPDATE lockhouse_owner_session SET expires_at=clock_timestamp()+INTERVAL '1 HOUR'".into(),
    ];
    for statement in aged {
        run(&mut lease, &statement).await;
    }
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let sessions = stale(Timestamp::UNIX_EPOCH, now, now);
    finds_by(&mut lease, &sessions, "(owner = ").await;
    let name = "s000001".parse().unwrap();
    let process: ProcessId = PROCESS.parse().unwrap();
    let waiting = forget_one::<PostgresServer>(&name, process, &Time(now).to_string());
    finds_by(&mut lease, &waiting, "((semaphore = ").await;
    run(
        &mut lease,
        &format!("UPDATE lockhouse_owner_session SET expires_at={hour_ago}"),
    )
    .await;
    let age = Duration::ZERO;
    let text = |letter| move |i: usize| Text(&format!("{letter}{i:06}")).to_string();
    let kinds: [(_, &dyn Fn(usize) -> String, _); 4] = [
        (Purge::Semaphores { age }, &text('s'), "(name = "),
        (Purge::Requests { age }, &text('r'), "(external_id = "),
        (Purge::Sessions { age }, &text('w'), "(owner = "),
        (
            Purge::CapacityChanges { age },
            &|i| (i + 1).to_string(),
            "(id = ",
        ),
    ];
    for (what, key_of, key) in kinds {
        for asked in [1, 64, 800] {
            let keys = (0..asked).map(key_of);
            let script = lock(what, now, &list(keys));
            let (_, statement) = script.text().split_once(';').unwrap();
            finds_by(&mut lease, statement, key).await;
        }
    }
    drop(lease);
    remove(&base, &database).await;
}

const PROCESS: &str = "00000000000000a1";

/// Asserts that the last scan of an index in its plan is by `condition`.
async fn finds_by(lease: &mut Lease<PostgresServer>, statement: &str, condition: &str) {
    let plan = explain(lease, "EXPLAIN", statement).await;
    let last = plan.lines().rfind(|line| line.contains("Index Cond"));
    assert!(
        last.is_some_and(|line| line.contains(condition)),
        "{statement:.300}\n{plan:.1500}"
    );
}
