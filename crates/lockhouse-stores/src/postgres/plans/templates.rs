//! The cost of finding the semaphores that do not follow their template, and those that nobody uses.

use std::time::Duration;

use super::super::sql::CLOCK;
use super::due::rows_read;
use super::{PostgresServer, database, explain, lend, remove, run};
use crate::sql::plan_rows::{template, templated};
use crate::sql::{rows, templates};

/// P12. Of 2000 semaphores of a template a few differ from it or are idle. The rest is not read, nor those of another
/// one, whether the server knows how many there are or not.
#[tokio::test]
async fn finding_what_follows_a_template_costs_what_is_found() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    let mut lease = lend(&store).await;
    let rows_of_templates = templated("clock_timestamp()", "clock_timestamp()-INTERVAL '1 DAY'");
    run(&mut lease, &rows_of_templates).await;
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let (template, expected) = template();
    let hour_ago = now.checked_sub(Duration::from_secs(3_600)).unwrap();
    for knows in [false, true] {
        if knows {
            run(&mut lease, "ANALYZE").await;
        }
        let scripts = templates::find::<PostgresServer>(&template, hour_ago, 200);
        for (script, expected) in scripts.into_iter().zip(expected) {
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
