//! The cost of a page of a listing.

use lockhouse_core::store::{Cursor, Page};
use lockhouse_core::{NamePrefix, Owner, SemaphoreName};

use super::due::rows_read;
use super::{Postgres, PostgresServer, database, explain, lend, remove, run};
use crate::sql::{Dialect as _, Names, list};
use crate::walk::Walk;

/// Rows before and after the page are not read, and neither are ended requests, with and without
/// statistics. Only the rows of the page are sorted.
#[tokio::test]
async fn a_page_is_read_at_the_cost_of_what_it_holds() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    run(&mut lend(&store).await, "ANALYZE").await;
    fill_with_holders(&store).await;
    let mut lease = lend(&store).await;
    for knows in [false, true] {
        if knows {
            run(&mut lease, "ANALYZE").await;
        }
        for (statement, expected, most) in pages() {
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
            assert!(read <= most, "{read} rows: {what}");
        }
    }
    drop(lease);
    remove(&base, &database).await;
}

const LIVE: &str = "ACQUIRED";

/// Of 2000 live requests four hold permits of the second semaphore alone, and every second is of one owner. 30 more hold
/// permits of two semaphores, three of them of the second. As many have ended.
async fn fill_with_holders(store: &Postgres) {
    let rows = |row: &dyn Fn(usize) -> String| list((1..=2000).map(row));
    let now = "clock_timestamp()";
    let owner = |i: usize| {
        if i.is_multiple_of(2) {
            "'many'"
        } else {
            "NULL"
        }
    };
    let request = |i: usize| {
        let only = if i.is_multiple_of(500) { 2 } else { 1 };
        format!("({i},'l{i}',{},'{LIVE}',NULL,{now},NULL,{only})", owner(i))
    };
    let ended = |i: usize| {
        let id = i + 5000;
        let only = 1 + i % 2;
        format!(
            "({id},'o{id}',{},'RELEASED','released',{now},{now},{only})",
            owner(i)
        )
    };
    let of_several =
        (3001..=3030).map(|i| format!("({i},'l{i}',{},'{LIVE}',NULL,{now},NULL,0)", owner(i)));
    let permits_of_several = (3001..=3030).flat_map(|i| {
        let other = if i % 10 == 0 { 2 } else { 3 };
        [1, other].map(|semaphore| format!("({i},{semaphore},1,{i})"))
    });
    let semaphores = rows(&|i| format!("({i},'n/{i:06}',9999,0,9999,{now},{now})"));
    let permits = |from: usize| {
        rows(&|i| {
            format!(
                "({i}+{from},{},1,{i}+{from})",
                if i.is_multiple_of(500) { 2 } else { 1 }
            )
        })
    };
    let mut lease = lend(store).await;
    let request_columns =
        "id,external_id,owner,state,end_reason,created_at,released_at,only_semaphore_id";
    let permit_columns = "permit_request_id,semaphore_id,count,fence";
    let semaphore_columns = "id,name,capacity,in_use,fence,created_at,updated_at";
    for (table, columns, rows) in [
        ("lockhouse_semaphore", semaphore_columns, semaphores),
        ("lockhouse_permit_request", request_columns, rows(&request)),
        ("lockhouse_permit_request", request_columns, rows(&ended)),
        (
            "lockhouse_permit_request",
            request_columns,
            list(of_several),
        ),
        ("lockhouse_permit", permit_columns, permits(0)),
        ("lockhouse_permit", permit_columns, permits(5000)),
        ("lockhouse_permit", permit_columns, list(permits_of_several)),
    ] {
        let insert = format!("INSERT INTO {table} ({columns}) VALUES {rows}");
        run(&mut lease, &insert).await;
    }
}

/// The statements that read pages of three rows, how many entries of the index each finds, and how
/// many rows reading them may cost.
fn pages() -> Vec<(String, usize, f64)> {
    let many = Owner::parse("many").unwrap();
    let nobody = Owner::parse("nobody").unwrap();
    let at = |group, row| Some(Cursor { group, row });
    let walks = [
        (None, None, None, vec![4]),
        (None, None, at(1, 900), vec![4, 4]),
        (None, None, at(2, 2000), vec![0, 0]),
        (None, Some(1), at(1, 900), vec![4]),
        (None, Some(2), None, vec![30, 4]),
        (None, Some(2), at(0, 3020), vec![10, 4]),
        (None, Some(2), at(2, 1500), vec![1]),
        (None, Some(4), None, vec![30, 0]),
        (Some(&many), None, None, vec![4]),
        (Some(&many), None, at(1, 900), vec![4, 4]),
        (Some(&many), Some(1), at(1, 900), vec![4]),
        (Some(&many), Some(2), None, vec![15, 4]),
        (Some(&nobody), Some(2), None, vec![0, 0]),
    ];
    let stretches = walks.into_iter().flat_map(|(owner, on, after, found)| {
        let walk = Walk::new(on, &Page { after, limit: 3 });
        assert_eq!(walk.stretches().len(), found.len());
        let stretches = walk.stretches().iter().zip(found);
        let stretches = stretches.map(|(stretch, found)| {
            // Those of several are looked up one by one.
            let most = if stretch.holds.is_some() { 100.0 } else { 12.0 };
            (PostgresServer::stretch(owner, stretch), found, most)
        });
        stretches.collect::<Vec<_>>()
    });
    let names = |prefix: &str, after: Option<&str>| {
        let names = Names::Existing(Some(NamePrefix::parse(prefix).unwrap()));
        let after = after.map(|name| SemaphoreName::parse(name).unwrap());
        PostgresServer::semaphores(&names, &Page { after, limit: 3 })
            .text()
            .to_owned()
    };
    let rows = PostgresServer::live(&[1, 2, 3]).text().to_owned();
    let others = [
        (rows, 3, 60.0),
        (names("", None), 3, 12.0),
        (names("n/0010", None), 3, 12.0),
        (names("n/0010", Some("n/001090")), 3, 12.0),
        (names("n/0010", Some("n/001098")), 1, 12.0),
        (names("m", None), 0, 12.0),
        (names("o", None), 0, 12.0),
    ];
    stretches.chain(others).collect()
}
