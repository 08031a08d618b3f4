//! The cost of finding the semaphores that do not follow their template, and those that nobody uses.

use std::time::Duration;

use super::due::reads;
use super::{MARIADB, MYSQL, column, database, lend, remove, run, server};
use crate::mysql::MySqlServer;
use crate::mysql::sql::CLOCK;
use crate::sql::plan_rows::{template, templated};
use crate::sql::{rows, templates};

#[tokio::test]
async fn mysql_finds_what_follows_a_template_at_the_cost_of_what_it_finds() {
    finds_what_follows_at_the_cost_of_what_it_finds(MYSQL).await;
}

#[tokio::test]
async fn mariadb_finds_what_follows_a_template_at_the_cost_of_what_it_finds() {
    finds_what_follows_at_the_cost_of_what_it_finds(MARIADB).await;
}

/// P12. Of 2000 semaphores of a template a few differ from it or are idle. The rest is not read, nor those of another one.
async fn finds_what_follows_at_the_cost_of_what_it_finds(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    let mut lease = lend(&store, variable).await;
    let rows_of_templates = templated("SYSDATE(6)", "SYSDATE(6)-INTERVAL 1 DAY");
    run(&mut lease, &rows_of_templates).await;
    run(&mut lease, "ANALYZE TABLE lockhouse_semaphore").await;
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let (template, expected) = template();
    let hour_ago = now.checked_sub(Duration::from_secs(3_600)).unwrap();
    let scripts = templates::find::<MySqlServer>(&template, hour_ago, 200);
    for (script, expected) in scripts.into_iter().zip(expected) {
        let statement = script.text();
        for step in run(&mut lease, &format!("EXPLAIN {statement}")).await {
            let access = column(&step, "type");
            assert!(
                !["ALL", "index"].contains(&&*access),
                "{access}: {statement}"
            );
            let sorts = column(&step, "Extra").contains("filesort");
            assert!(!sorts, "{statement}");
        }
        let before = reads(&mut lease).await;
        let found = run(&mut lease, statement).await.len();
        let read = reads(&mut lease).await - before;
        assert_eq!(found, expected, "{statement}");
        assert!(read < 20, "{read} reads: {statement}");
    }
    drop(lease);
    remove(&base, &database).await;
}
