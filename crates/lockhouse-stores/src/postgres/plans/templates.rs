//! The cost of finding the semaphores that do not follow their template, and those that nobody uses.

use std::time::Duration;

use lockhouse_core::{Capacity, Idle, Template, Timestamp};

use super::super::sql::CLOCK;
use super::due::rows_read;
use super::{Postgres, PostgresServer, database, explain, lend, remove, run};
use crate::sql::{list, rows, templates};

/// P12. Of 2000 semaphores of a template a few differ from it or are idle. The rest is not read, nor those of another
/// one, whether the server knows how many there are or not.
#[tokio::test]
async fn finding_what_follows_a_template_costs_what_is_found() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    fill(&store).await;
    let mut lease = lend(&store).await;
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let template = Template {
        pattern: "c/*".parse().unwrap(),
        capacity: Capacity::new(5).unwrap(),
        idle: Idle::from_ms(1).unwrap(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    let hour_ago = now.checked_sub(Duration::from_secs(3_600)).unwrap();
    for knows in [false, true] {
        if knows {
            run(&mut lease, "ANALYZE").await;
        }
        let scripts = templates::find::<PostgresServer>(&template, hour_ago, 200);
        for (script, expected) in scripts.into_iter().zip([3, 4, 2]) {
            let statement = script.text();
            let how = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)";
            let plan = explain(&mut lease, how, statement).await;
            let what = format!("{knows}: {statement}\n{plan}");
            assert_eq!(run(&mut lease, statement).await.len(), expected, "{what}");
            assert!(!plan.contains("Seq Scan"), "{what}");
            let read = rows_read(&plan);
            assert!(read < 30.0, "{read} rows: {what}");
        }
    }
    drop(lease);
    remove(&base, &database).await;
}

/// 2000 of each of two templates: three are too small, four too large, as many were resized by hand, and two are idle.
async fn fill(store: &Postgres) {
    let now = "clock_timestamp()";
    let semaphores = list((1..=4000).map(|i| {
        let (capacity, is_resized) = match i {
            1..=3 => (4, 0),
            4..=7 => (6, 0),
            8..=14 => (i, 1),
            _ => (5, 0),
        };
        let used = match i {
            15..=16 => format!("{now}-INTERVAL '1 DAY'"),
            _ => now.to_owned(),
        };
        let template = if i <= 2000 { "c/*" } else { "d/*" };
        format!("({i},'{i:06}',{capacity},0,1,{now},{now},'{template}',{is_resized},{used})")
    }));
    let columns = "id,name,capacity,in_use,fence,created_at,updated_at,template,is_resized,used_at";
    let insert = format!("INSERT INTO lockhouse_semaphore ({columns}) VALUES {semaphores}");
    run(&mut lend(store).await, &insert).await;
}
