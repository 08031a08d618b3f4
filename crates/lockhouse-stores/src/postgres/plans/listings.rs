//! The cost of a page of a listing.

use super::due::rows_read;
use super::{PostgresServer, database, explain, lend, remove, run};
use crate::sql::plan_rows::{Most, held, pages};

const MOST: Most = Most {
    of_a_page: 12,
    of_several: 100,
    of_requests: 60,
};

/// Rows before and after the page are not read, and neither are ended requests, with and without
/// statistics. Only the rows of the page are sorted.
#[tokio::test]
async fn a_page_is_read_at_the_cost_of_what_it_holds() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    run(&mut lend(&store).await, "ANALYZE").await;
    let mut lease = lend(&store).await;
    for insert in held("clock_timestamp()") {
        run(&mut lease, &insert).await;
    }
    for knows in [false, true] {
        if knows {
            run(&mut lease, "ANALYZE").await;
        }
        for (statement, expected, most) in pages::<PostgresServer>(MOST) {
            let how = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)";
            let plan = explain(&mut lease, how, &statement).await;
            let found = run(&mut lease, &statement).await.len();
            let what = format!("{knows}: {statement}\n{plan}");
            assert_eq!(found, expected, "{what}");
            assert!(!plan.contains("Seq Scan"), "{what}");
            assert!(
                !plan.contains("Sort Key") || statement.contains("p.count"),
                "{what}"
            );
            let read = rows_read(&plan);
            assert!(read <= most as f64, "{read} rows: {what}");
        }
    }
    drop(lease);
    remove(&base, &database).await;
}
