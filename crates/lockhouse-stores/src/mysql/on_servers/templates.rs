//! The cost of finding the semaphores that do not follow their template, and those that nobody uses.

use std::time::Duration;

use lockhouse_core::{Capacity, Idle, Template, Timestamp};

use super::due::reads;
use super::{MARIADB, MYSQL, column, database, lend, remove, run, server};
use crate::mysql::sql::CLOCK;
use crate::mysql::{MySql, MySqlServer};
use crate::sql::{list, rows, templates};

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
    fill(&store).await;
    let mut lease = lend(&store, variable).await;
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let template = Template {
        pattern: "c/*".parse().unwrap(),
        capacity: Capacity::new(5).unwrap(),
        idle: Idle::from_ms(1).unwrap(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    let hour_ago = now.checked_sub(Duration::from_secs(3_600)).unwrap();
    let scripts = templates::find::<MySqlServer>(&template, hour_ago, 200);
    for (script, expected) in scripts.into_iter().zip([3, 4, 2]) {
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

/// 2000 of each of two templates: three are too small, four too large, as many were resized by hand, and two are idle.
async fn fill(store: &MySql) {
    let now = "SYSDATE(6)";
    let semaphores = list((1..=4000).map(|i| {
        let (capacity, is_resized) = match i {
            1..=3 => (4, 0),
            4..=7 => (6, 0),
            8..=14 => (i, 1),
            _ => (5, 0),
        };
        let used = match i {
            15..=16 => format!("{now}-INTERVAL 1 DAY"),
            _ => now.to_owned(),
        };
        let template = if i <= 2000 { "c/*" } else { "d/*" };
        format!("({i},'{i:06}',{capacity},0,1,{now},{now},'{template}',{is_resized},{used})")
    }));
    let mut lease = store.0.pool.lend(Duration::from_secs(9)).await.unwrap();
    let columns = "id,name,capacity,in_use,fence,created_at,updated_at,template,is_resized,used_at";
    let insert = format!("INSERT INTO lockhouse_semaphore ({columns}) VALUES {semaphores}");
    run(&mut lease, &insert).await;
    run(&mut lease, "ANALYZE TABLE lockhouse_semaphore").await;
}
