//! The cost of a page of a listing.

use super::due::reads;
use super::{MARIADB, MYSQL, column, database, lend, remove, run, server};
use crate::mysql::MySqlServer;
use crate::sql::plan_rows::{Most, held, pages};

const MOST: Most = Most {
    of_a_page: 8,
    of_several: 100,
    of_requests: 40,
};

#[tokio::test]
async fn mysql_reads_a_page_at_the_cost_of_what_it_holds() {
    reads_a_page_at_the_cost_of_what_it_holds(MYSQL).await;
}

#[tokio::test]
async fn mariadb_reads_a_page_at_the_cost_of_what_it_holds() {
    reads_a_page_at_the_cost_of_what_it_holds(MARIADB).await;
}

/// Rows before and after the page are not read, and neither are ended requests. Only the rows of
/// the page are sorted.
async fn reads_a_page_at_the_cost_of_what_it_holds(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let mut lease = lend(&store, variable).await;
    for insert in held("SYSDATE(6)") {
        run(&mut lease, &insert).await;
    }
    for (statement, expected, most) in pages::<MySqlServer>(MOST) {
        let plan = run(&mut lease, &format!("EXPLAIN {statement}")).await;
        for step in plan {
            let access = column(&step, "type");
            let of_rows = column(&step, "table").starts_with('<');
            assert!(
                of_rows || !["ALL", "index"].contains(&&*access),
                "{access}: {statement}"
            );
            let sorts = column(&step, "Extra").contains("filesort");
            assert!(!sorts || statement.contains("p.count"), "{statement}");
        }
        let before = reads(&mut lease).await;
        let found = run(&mut lease, &statement).await.len();
        let read = reads(&mut lease).await - before;
        assert_eq!(found, expected, "{statement}");
        assert!(read <= most, "{read} reads: {statement}");
    }
    drop(lease);
    remove(&base, &database).await;
}
