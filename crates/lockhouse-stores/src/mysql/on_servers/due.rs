//! The cost of finding due requests and old rows.

use std::time::Duration;

use lockhouse_core::store::{Page, Purge};
use lockhouse_core::{Owner, SemaphoreName, Timestamp};

use super::{MARIADB, MYSQL, SEMAPHORES, column, database, lend, remove, run, server};
use crate::mysql::sql::CLOCK;
use crate::mysql::{MySql, MySqlServer};
use crate::sql::{Dialect as _, Lease, Look, list, rows};

#[tokio::test]
async fn mysql_finds_what_is_due_at_the_cost_of_what_is_due() {
    finds_what_is_due_at_the_cost_of_what_is_due(MYSQL).await;
}

#[tokio::test]
async fn mariadb_finds_what_is_due_at_the_cost_of_what_is_due() {
    finds_what_is_due_at_the_cost_of_what_is_due(MARIADB).await;
}

/// P12. Held and ended requests are not read: of 2000 each, all on one semaphore, the few due ones
/// are found by reading few rows.
async fn finds_what_is_due_at_the_cost_of_what_is_due(variable: &str) {
    let Some(base) = server(variable) else { return };
    let (database, store) = database(&base).await;
    fill_with_the_past(&store).await;
    let mut lease = lend(&store, variable).await;
    let now = rows::moment(&run(&mut lease, CLOCK).await[0]).unwrap();
    let day = Duration::from_secs(86_400);
    let on = |id| {
        let look = Look {
            on: &[id],
            left_out: Timestamp::UNIX_EPOCH,
        };
        MySqlServer::lapsed_on(&look, now, 800)
    };
    let of_an_owner = Owner::parse("w000002").unwrap();
    let both = ["s", "t"].map(|name| SemaphoreName::parse(name).unwrap());
    let due = [
        (MySqlServer::look(&both, 3), 2),
        (MySqlServer::lapsed(now, 800), 4),
        (on(1), 4),
        (on(2), 0),
        (MySqlServer::owned_by(&of_an_owner, 800), 1),
    ];
    let purges = [
        (Purge::Requests { age: day }, 3),
        (Purge::CapacityChanges { age: day }, 3),
        (Purge::Sessions { age: day }, 3),
    ];
    let cutoff = now.checked_sub(day).unwrap();
    let purges = purges.map(|(what, found)| (MySqlServer::find_past(what, cutoff, 800), found));
    // Three, and one that a session keeps.
    let ever = Timestamp::UNIX_EPOCH;
    let looks = [
        (MySqlServer::last_of_age(ever, cutoff, 2), 1),
        (MySqlServer::stale(ever, cutoff, now), 3),
    ];
    // The first asks each of the 257 buckets.
    let most = |statement: &str| {
        if statement.contains("IN (2,3,") {
            400
        } else {
            120
        }
    };
    let owners = MySqlServer::owners(&Page {
        after: Some(Owner::parse("w001989").unwrap()),
        limit: 3,
    });
    for (script, expected) in due
        .into_iter()
        .chain(purges)
        .chain(looks)
        .chain([(owners, 3)])
    {
        let statement = script.text();
        let plan = run(&mut lease, &format!("EXPLAIN {statement}")).await;
        for step in plan {
            // A table made on the way is as large as what is due.
            let of_rows = column(&step, "table").starts_with('<');
            let access = column(&step, "type");
            let scans = ["ALL", "index"].contains(&&*access) && !of_rows;
            assert!(!scans, "{access}: {statement}");
        }
        let before = reads(&mut lease).await;
        let found = run(&mut lease, statement).await.len();
        let read = reads(&mut lease).await - before;
        assert_eq!(found, expected, "{statement}");
        assert!(read < most(statement), "{read} reads: {statement}");
    }
    // All that is live and held by one semaphore's requests only has lapsed, one way or the other.
    let lapse = "UPDATE lockhouse_permit_request \
        SET expires_at=IF(id%2,NULL,SYSDATE(6)-INTERVAL 1 DAY),only_semaphore_id=1 WHERE id<=2000";
    run(&mut lease, lapse).await;
    let silence = "UPDATE lockhouse_owner_session SET expires_at=SYSDATE(6)-INTERVAL 1 DAY";
    run(&mut lease, silence).await;
    let look = Look {
        on: &[2],
        left_out: now.checked_sub(Duration::from_secs(3_600)).unwrap(),
    };
    let script = MySqlServer::lapsed_on(&look, now, 800);
    let before = reads(&mut lease).await;
    assert!(run(&mut lease, script.text()).await.is_empty());
    let read = reads(&mut lease).await - before;
    assert!(read < 120, "{read} reads of what has lapsed elsewhere");
    drop(lease);
    remove(&base, &database).await;
}

/// How many rows and entries of indexes this session has read.
pub(super) async fn reads(lease: &mut Lease<MySqlServer>) -> u64 {
    let counters = run(lease, "SHOW SESSION STATUS LIKE 'Handler_read%'").await;
    let counts = counters.iter().map(|row| column(row, "Value"));
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

/// On one semaphore of two: 2000 live requests, half of them for ever, 2000 ended ones, as many
/// sessions and capacity changes; of each a few that are due.
async fn fill_with_the_past(store: &MySql) {
    let rows = |row: &dyn Fn(usize) -> String| list((1..=2000).map(row));
    let ago = |days: usize| format!("SYSDATE(6)-INTERVAL {days} DAY");
    let (live, over) = ("ACQUIRED", "RELEASED");
    let requests = rows(&|i| {
        let made = ago(if i % 666 == 333 { 2 } else { 0 });
        let ends = match i {
            2 | 4 => format!("1000,{}", ago(1)),
            _ if i % 2 == 0 => "1000,SYSDATE(6)+INTERVAL 1 DAY".to_owned(),
            _ => "NULL,NULL".to_owned(),
        };
        let only = i / 2 % 2;
        format!("({i},'l{i}','w{i:06}','{live}',{ends},{made},NULL,{only})")
    });
    let ended = rows(&|i| {
        let at = ago(if i <= 3 { 2 } else { 0 });
        format!("({i}+5000,'o{i}','v{i:06}','{over}',NULL,NULL,{at},{at},1)")
    });
    let permits = |from: usize| rows(&|i| format!("({i}+{from},1,1,{i}+{from})"));
    let sessions = rows(&|i| match i {
        // Of two who hold something, and of three who do not.
        5 | 6 => format!("('w{i:06}',1,{})", ago(1)),
        7..=9 => format!("('u{i:06}',1,{})", ago(2)),
        // Of three who hold for ever, and of whom nothing was heard.
        _ if i % 666 == 333 => format!("('x{i:06}',1,SYSDATE(6)+INTERVAL 1 DAY)"),
        _ => format!("('w{i:06}',1,SYSDATE(6)+INTERVAL 1 DAY)"),
    });
    let changes = rows(&|i| format!("({i},1,1,2,NULL,NULL,{})", ago(if i <= 3 { 2 } else { 0 })));
    let semaphores = "(1,'s',9999,2000,9999,SYSDATE(6),SYSDATE(6),NULL),\
        (2,'t',9999,0,0,SYSDATE(6),SYSDATE(6),NULL)";
    let mut lease = store.0.pool.lend(Duration::from_secs(9)).await.unwrap();
    let of_requests = "lockhouse_permit_request \
        (id,external_id,owner,state,ttl_ms,expires_at,created_at,released_at,only_semaphore_id)";
    let of_permits = "lockhouse_permit (permit_request_id,semaphore_id,count,fence)";
    for (table, rows) in [
        (SEMAPHORES, semaphores.to_owned()),
        (of_requests, requests),
        (of_requests, ended),
        (of_permits, permits(0)),
        (of_permits, permits(5000)),
        ("lockhouse_owner_session", sessions),
        ("lockhouse_capacity_change", changes),
    ] {
        run(&mut lease, &format!("INSERT INTO {table} VALUES {rows}")).await;
        let table = table.split(' ').next().unwrap_or(table);
        run(&mut lease, &format!("ANALYZE TABLE {table}")).await;
    }
}
