//! The cost of finding due requests and old rows.

use std::time::Duration;

use lockhouse_core::store::{Page, Purge};
use lockhouse_core::{Owner, SemaphoreName, Timestamp};

use super::super::sql::CLOCK;
use super::{Postgres, PostgresServer, database, explain, lend, remove, run};
use crate::sql::{Dialect as _, Look, list, rows};

/// P12. Held and ended requests are not read: of 2000 each, all on one semaphore, the few due ones
/// are found by reading few rows, with and without statistics.
#[tokio::test]
async fn finding_due_requests_reads_only_due_rows() {
    let Some((base, database, store)) = database().await else {
        return;
    };
    fill_with_the_past(&store).await;
    let mut lease = lend(&store).await;
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let day = Duration::from_secs(86_400);
    let on = |id| {
        let look = Look {
            on: &[id],
            left_out: Timestamp::UNIX_EPOCH,
        };
        PostgresServer::lapsed_on(&look, now, 800)
    };
    let of_an_owner = Owner::parse("w000002").unwrap();
    let both = ["s", "t"].map(|name| SemaphoreName::parse(name).unwrap());
    let due = [
        (PostgresServer::look(&both, 3), 2),
        (PostgresServer::lapsed(now, 800), 4),
        (on(1), 4),
        (on(2), 0),
        (PostgresServer::owned_by(&of_an_owner, 800), 1),
    ];
    let purges = [
        (Purge::Requests { age: day }, 3),
        (Purge::CapacityChanges { age: day }, 3),
        (Purge::Sessions { age: day }, 3),
    ];
    let cutoff = now.checked_sub(day).unwrap();
    let purges = purges.map(|(what, found)| (PostgresServer::find_past(what, cutoff, 800), found));
    // Three, and one that a session keeps.
    let ever = Timestamp::UNIX_EPOCH;
    let looks = [
        (PostgresServer::last_of_age(ever, cutoff, 2), 1),
        (PostgresServer::stale(ever, cutoff, now), 3),
    ];
    let owners = PostgresServer::owners(&Page {
        after: Some(Owner::parse("w001989").unwrap()),
        limit: 3,
    });
    let scripts: Vec<_> = due
        .into_iter()
        .chain(purges)
        .chain(looks)
        .chain([(owners, 3)])
        .collect();
    for knows in [false, true] {
        if knows {
            run(&mut lease, "ANALYZE").await;
        }
        for (script, expected) in &scripts {
            let statement = script.text();
            let how = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)";
            let plan = explain(&mut lease, how, statement).await;
            let found = run(&mut lease, statement).await.len();
            assert_eq!(found, *expected, "{statement}");
            assert!(!plan.contains("Seq Scan"), "{knows}: {statement}\n{plan}");
            let read = rows_read(&plan);
            assert!(read < 120.0, "{knows}: {read} rows: {statement}\n{plan}");
        }
    }
    // All that is live and held by one semaphore's requests only has lapsed, one way or the other.
    let lapse = "UPDATE lockhouse_permit_request SET only_semaphore_id=1,\
        expires_at=CASE WHEN id%2=0 THEN now()-INTERVAL '1 DAY' END WHERE id<=2000";
    run(&mut lease, lapse).await;
    let silence = "UPDATE lockhouse_owner_session SET expires_at=now()-INTERVAL '1 DAY'";
    run(&mut lease, silence).await;
    let look = Look {
        on: &[2],
        left_out: now.checked_sub(Duration::from_secs(3_600)).unwrap(),
    };
    let script = PostgresServer::lapsed_on(&look, now, 800);
    let how = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)";
    let plan = explain(&mut lease, how, script.text()).await;
    assert!(run(&mut lease, script.text()).await.is_empty());
    let read = rows_read(&plan);
    assert!(
        read < 120.0,
        "{read} rows of what has lapsed elsewhere\n{plan}"
    );
    drop(lease);
    remove(&base, &database).await;
}

/// How many rows all steps of a plan had, those among them that were not wanted.
pub(super) fn rows_read(plan: &str) -> f64 {
    let number = |text: &str| -> f64 {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        text[..end.unwrap_or(text.len())].parse().unwrap()
    };
    let mut loops = 1.0;
    let mut read = 0.0;
    for line in plan.lines() {
        if let Some((_, after)) = line.split_once("actual rows=") {
            loops = number(after.split_once("loops=").unwrap().1);
            read += number(after) * loops;
        }
        if let Some((_, after)) = line.split_once("Rows Removed by Filter: ") {
            read += number(after) * loops;
        }
    }
    read
}

/// On one semaphore of two: 2000 live requests, half of them for ever, 2000 ended ones, as many
/// sessions and capacity changes; of each a few that are due.
async fn fill_with_the_past(store: &Postgres) {
    let rows = |row: &dyn Fn(usize) -> String| list((1..=2000).map(row));
    let ago = |days: usize| format!("now()-INTERVAL '{days} DAY'");
    let ahead = "now()+INTERVAL '1 DAY'";
    let (live, over) = ("ACQUIRED", "RELEASED");
    let requests = rows(&|i| {
        let made = ago(if i % 666 == 333 { 2 } else { 0 });
        let ends = match i {
            2 | 4 => format!("1000,{}", ago(1)),
            _ if i % 2 == 0 => format!("1000,{ahead}"),
            _ => "NULL,NULL".to_owned(),
        };
        let only = i / 2 % 2;
        format!("({i},'l{i}','w{i:06}','{live}',NULL,{ends},{made},NULL,NULL,{only})")
    });
    let ended = rows(&|i| {
        let at = ago(if i <= 3 { 2 } else { 0 });
        format!("({i}+5000,'o{i}','v{i:06}','{over}','stale',NULL,NULL,{at},{at},NULL,1)")
    });
    let permits = |from: usize| rows(&|i| format!("({i}+{from},1,1,{i}+{from})"));
    let sessions = rows(&|i| match i {
        // Of two who hold something, and of three who do not.
        5 | 6 => format!("('w{i:06}',1,{})", ago(1)),
        7..=9 => format!("('u{i:06}',1,{})", ago(2)),
        // Of three who hold for ever, and of whom nothing was heard.
        _ if i % 666 == 333 => format!("('x{i:06}',1,{ahead})"),
        _ => format!("('w{i:06}',1,{ahead})"),
    });
    let changes = rows(&|i| format!("({i},1,1,2,NULL,NULL,{})", ago(if i <= 3 { 2 } else { 0 })));
    let semaphores = "(1,'s',9999,2000,9999,now(),now(),NULL),(2,'t',9999,0,0,now(),now(),NULL)";
    let mut lease = lend(store).await;
    for (table, rows) in [
        ("lockhouse_semaphore", semaphores.to_owned()),
        ("lockhouse_permit_request", requests),
        ("lockhouse_permit_request", ended),
        ("lockhouse_permit", permits(0)),
        ("lockhouse_permit", permits(5000)),
        ("lockhouse_owner_session", sessions),
        ("lockhouse_capacity_change", changes),
    ] {
        run(&mut lease, &format!("INSERT INTO {table} VALUES {rows}")).await;
    }
}
