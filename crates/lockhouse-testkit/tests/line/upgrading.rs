//! Two versions work on one database. The older version has no line: it writes rows as always, and leaves the line unchanged.
//! SQLite refuses older programs, and Redis has no older schema.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Lockhouse, Request};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::{self, Place};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::queue::{LONG, REGISTERED, Served, ask, hold};

const CAPACITY: u32 = 2;
const HELD: Duration = Duration::from_millis(5);
const RUNS: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_are_safe_and_all_new_ones_are_fair_on_mysql() {
    safe_then_fair(place::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_are_safe_and_all_new_ones_are_fair_on_mariadb() {
    safe_then_fair(place::mariadb().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_are_safe_and_all_new_ones_are_fair_on_postgres() {
    safe_then_fair(place::postgres().await).await;
}

/// P1, P2, P7 while both versions work, and P11 after the older one has ended.
async fn safe_then_fair(place: Option<Place>) {
    let Some(place) = place else { return };
    let servers = [place.client().await, place.client().await];
    servers[0].define("s", CAPACITY).await.unwrap();
    let (held, is_over) = (Arc::new(AtomicU32::new(0)), AtomicBool::new(false));
    let old = join_all((0..2).map(|who| older_version(&place, who, &held, &is_over)));
    let new: Vec<_> = (0..4).map(|n| holds(&servers[n % 2], n, &held)).collect();
    let new = async {
        let mut granted = Vec::new();
        for new in new {
            granted.extend(new.await.unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
        granted
    };
    let (old, new) = tokio::join!(old, new);
    let mut fences = old.concat();
    let (granted_to_old, granted_to_new) = (fences.len(), new.len());
    fences.extend(new.iter().map(|request| request.permits[0].fence));
    println!("{granted_to_new} grants to the new version, {granted_to_old} to the old one");
    assert!(granted_to_new >= 5 && granted_to_old >= 5);
    let grants = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), grants, "P7");
    let store = lockhouse_stores::open(place.url()).unwrap();
    let findings = store.recount().await.unwrap().findings();
    assert!(findings.is_empty(), "P2: {findings:?}");

    for i in 0..CAPACITY {
        hold(&servers[0], &format!("held-{i}"), &[("s", 1)]).await;
    }
    let served = Served::default();
    let mut waiters = Vec::new();
    for i in 0..4 {
        let asks = ask(&i.to_string(), &[("s", CAPACITY)]);
        waiters.push(served.waits(&servers[i % 2], asks, HELD));
        sleep(REGISTERED + Duration::from_millis(300)).await;
    }
    let released = Instant::now();
    for i in 0..CAPACITY {
        servers[0].release(&format!("held-{i}")).await.unwrap();
    }
    for waiter in waiters {
        waiter.granted().await;
    }
    served.in_order(released, &["0", "1", "2", "3"]);
    place.clear().await;
}

/// Waits, holds and releases again and again. Returns its grants.
fn holds(lockhouse: &Lockhouse, who: usize, held: &Arc<AtomicU32>) -> JoinHandle<Vec<Request>> {
    let (lockhouse, held) = (lockhouse.clone(), Arc::clone(held));
    tokio::spawn(async move {
        let (begun, mut granted) = (Instant::now(), Vec::new());
        while begun.elapsed() < RUNS {
            let id = format!("new-{who}-{}", granted.len());
            let asks = ask(&id, &[("s", 1)]);
            let (request, _) = lockhouse.acquire(asks, LONG).await.unwrap();
            is_held_for_a_moment(&held).await;
            assert!(lockhouse.release(&id).await.unwrap().now, "P3");
            granted.push(request);
            // The older version polls, and has to find room now and then.
            sleep(4 * HELD).await;
        }
        granted
    })
}

/// Holds for a moment, and checks P1 by the number of holders.
async fn is_held_for_a_moment(held: &AtomicU32) {
    let live = held.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(live <= CAPACITY, "P1: {live} of {CAPACITY} are held");
    sleep(HELD).await;
    held.fetch_sub(1, Ordering::SeqCst);
}

/// Writes like a process of the version before the line, which polls instead of waiting. Returns the fences of its grants.
async fn older_version(
    place: &Place,
    who: u32,
    held: &AtomicU32,
    is_over: &AtomicBool,
) -> Vec<u64> {
    let mut database = Database::open(place.url()).await;
    let mut fences = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let id = u32::try_from(fences.len()).unwrap() + (who + 1) * 1_000_000;
        if let Some(fence) = acquire_without_line(&mut database, id).await {
            fences.push(fence);
            is_held_for_a_moment(held).await;
            release_without_line(&mut database, id).await;
        }
        sleep(HELD).await;
    }
    fences
}

async fn acquire_without_line(database: &mut Database, id: u32) -> Option<u64> {
    let now = database.seconds_ago("0");
    database.run("BEGIN").await;
    if locked(database, "capacity - in_use").await <= 0 {
        database.run("ROLLBACK").await;
        return None;
    }
    let fence = locked(database, "fence").await + 1;
    let semaphore = locked(database, "id").await;
    let grant = format!(
        "INSERT INTO lockhouse_permit_request (id,external_id,state,created_at,only_semaphore_id) \
         VALUES ({id},'old-{id}','ACQUIRED',{now},{semaphore}); \
         INSERT INTO lockhouse_permit (permit_request_id,semaphore_id,count,fence) VALUES ({id},{semaphore},1,{fence}); \
         UPDATE lockhouse_semaphore SET in_use=in_use+1,fence={fence},updated_at={now} \
         WHERE name='s'; COMMIT"
    );
    database.run(&grant).await;
    Some(fence.try_into().unwrap())
}

async fn release_without_line(database: &mut Database, id: u32) {
    let now = database.seconds_ago("0");
    database.run("BEGIN").await;
    locked(database, "id").await;
    let release = format!(
        "UPDATE lockhouse_permit_request SET state='RELEASED',end_reason='RELEASED',released_at={now} \
         WHERE id={id}; \
         UPDATE lockhouse_semaphore SET in_use=in_use-1,updated_at={now} WHERE name='s'; COMMIT"
    );
    database.run(&release).await;
}

/// A number of the semaphore's row, under its lock.
async fn locked(database: &mut Database, what: &str) -> i64 {
    let number = match database {
        Database::MySql(_) => format!("CAST({what} AS SIGNED)"),
        _ => format!("CAST({what} AS bigint)"),
    };
    let select = format!("SELECT {number} FROM lockhouse_semaphore WHERE name='s' FOR UPDATE");
    database.number(&select).await
}
