//! Two processes of 32 tasks each hammer three overlapping semaphores. Meanwhile, and at every past grant, the database's own
//! rows must keep P1, P2, P3 and P7.
//!
//! `LOCKHOUSE_CONTENTION_MS` is the duration (10 s), and `LOCKHOUSE_CONTENTION_SEED` the seed.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_testkit::broken::UNLOCKED;
use lockhouse_testkit::clock::Clock;
use lockhouse_testkit::place::{self, Place};
use lockhouse_testkit::{audit, rows};
use tokio::process::{Child, Command};

const PROCESSES: u64 = 2;
const TASKS: u64 = 32;

#[tokio::test]
async fn sqlite_keeps_its_promises_under_contention() {
    contend(place::sqlite().await).await;
}

#[tokio::test]
async fn mysql_keeps_its_promises_under_contention() {
    contend(place::mysql().await).await;
}

#[tokio::test]
async fn mariadb_keeps_its_promises_under_contention() {
    contend(place::mariadb().await).await;
}

#[tokio::test]
async fn mariadb11_keeps_its_promises_under_contention() {
    contend(place::mariadb11().await).await;
}

/// P8.
#[tokio::test]
async fn mysql_keeps_its_promises_whatever_clocks_its_clients_have() {
    contend_under_wrong_clocks(place::mysql().await).await;
}

/// P8.
#[tokio::test]
async fn mariadb_keeps_its_promises_whatever_clocks_its_clients_have() {
    contend_under_wrong_clocks(place::mariadb().await).await;
}

#[tokio::test]
async fn postgres_keeps_its_promises_under_contention() {
    contend(place::postgres().await).await;
}

#[tokio::test]
async fn postgres18_keeps_its_promises_under_contention() {
    contend(place::postgres18().await).await;
}

#[tokio::test]
async fn redis_keeps_its_promises_under_contention() {
    contend(place::redis().await).await;
}

#[tokio::test]
async fn valkey_keeps_its_promises_under_contention() {
    contend(place::valkey().await).await;
}

/// P8.
#[tokio::test]
async fn redis_keeps_its_promises_whatever_clocks_its_clients_have() {
    contend_under_wrong_clocks(place::redis().await).await;
}

#[tokio::test]
async fn a_redis_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::redis().await).await;
}

#[tokio::test]
async fn an_sqlite_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::sqlite().await).await;
}

#[tokio::test]
async fn a_mysql_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::mysql().await).await;
}

#[tokio::test]
async fn a_mariadb_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::mariadb().await).await;
}

#[tokio::test]
async fn a_mariadb11_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::mariadb11().await).await;
}

#[tokio::test]
async fn a_postgres_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::postgres().await).await;
}

#[tokio::test]
async fn a_postgres18_store_that_forgets_the_lock_is_caught() {
    forget_the_lock(place::postgres18().await).await;
}

async fn contend(place: Option<Place>) {
    let Some(place) = place else { return };
    define(&place).await;
    let ms = setting("LOCKHOUSE_CONTENTION_MS", 10_000);
    let hammers = start(place.url(), ms, &[], 0);
    keeps_its_promises(place, hammers).await;
}

/// The clock of one process is hours fast, and that of the other jumps.
async fn contend_under_wrong_clocks(place: Option<Place>) {
    let Some(place) = place else { return };
    let clocks = [Clock::off_by("+9h"), Clock::off_by("-9h")];
    let clocks: Vec<_> = clocks.into_iter().flatten().map(Arc::new).collect();
    let Some(last) = clocks.last() else { return };
    let _jumping = last.keeps_jumping(&["-9h", "+400d", "+0", "-400d"]);
    define(&place).await;
    let ms = setting("LOCKHOUSE_CONTENTION_MS", 10_000);
    let hammers = start(place.url(), ms, &clocks, 0);
    keeps_its_promises(place, hammers).await;
}

/// Checks the rows while the processes hammer, and afterwards.
async fn keeps_its_promises(place: Place, mut hammers: Vec<Child>) {
    while hammers
        .iter_mut()
        .any(|hammer| hammer.try_wait().unwrap().is_none())
    {
        assert_eq!(audit::violations(&rows::read(place.url()).await), [""; 0]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut granted = 0;
    for hammer in hammers {
        let output = hammer.wait_with_output().await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        let count = said.split(['=', ' ']).nth(1).unwrap();
        granted += count.parse::<usize>().unwrap();
    }
    // A grant that expired before its answer was not reported, so no task released it. A sweep ends it.
    let upkeep = lockhouse::Upkeep::default();
    place.client().await.sweep(&upkeep).await.unwrap();
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    assert!(
        rows.semaphores.iter().all(|row| row.in_use == 0),
        "{:?}",
        rows.semaphores
    );
    let requests: std::collections::HashSet<_> = rows
        .permits
        .iter()
        .map(|permit| &permit.external_id)
        .collect();
    assert!(
        granted > 100,
        "only {granted} grants: that is no contention"
    );
    assert!(
        requests.len() >= granted,
        "{granted} grants were answered, of {}",
        requests.len()
    );
    place.clear().await;
}

/// How long a broken store may take until each broken promise shows.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);

/// After this time the counters are repaired, and the processes begin again. A broken store that counts too many held permits
/// would no longer grant any.
const ROUND: Duration = Duration::from_secs(5);

/// The check can fail: a store that is broken on purpose is caught.
async fn forget_the_lock(place: Option<Place>) {
    let Some(place) = place else { return };
    define(&place).await;
    let mut missing = vec!["P1", "P2", "P7"];
    let until = Instant::now() + SHOWS_WITHIN;
    // A race shows when two processes meet, so they run until it has. Each round has new ids.
    for round in 0.. {
        if missing.is_empty() || Instant::now() >= until {
            break;
        }
        let url = format!("{UNLOCKED}{}", place.url());
        let mut hammers = start(&url, 20_000, &[], round);
        let ends = until.min(Instant::now() + ROUND);
        // The rows decide, whether the hammers fail or not.
        while !missing.is_empty() && Instant::now() < ends && are_running(&mut hammers) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let found = audit::violations(&rows::read(place.url()).await);
            missing.retain(|promise| !found.iter().any(|text| text.starts_with(promise)));
        }
        for hammer in &mut hammers {
            if hammer.try_wait().unwrap().is_none() {
                hammer.kill().await.unwrap();
            }
        }
        let whole = place.client().await;
        let findings = whole.verify().await.unwrap();
        whole.repair(&findings).await.unwrap();
    }
    assert!(missing.is_empty(), "no violation of {missing:?} was found");
    place.clear().await;
}

fn are_running(hammers: &mut [Child]) -> bool {
    hammers
        .iter_mut()
        .any(|hammer| hammer.try_wait().unwrap().is_none())
}

async fn define(place: &Place) {
    let lockhouse = place.client().await;
    for (name, capacity) in [("north", 5), ("middle", 3), ("south", 9)] {
        lockhouse.define(name, capacity).await.unwrap();
    }
}

/// Starts the hammers, each under its clock if there are clocks.
fn start(url: &str, ms: u64, clocks: &[Arc<Clock>], round: u64) -> Vec<Child> {
    let seed = setting("LOCKHOUSE_CONTENTION_SEED", 1) + round * PROCESSES;
    let hammer = |process: u64| {
        let clock = clocks.get(process as usize);
        Command::new(env!("CARGO_BIN_EXE_hammer"))
            .args([
                url,
                &TASKS.to_string(),
                &ms.to_string(),
                &(seed + process).to_string(),
            ])
            .envs(clock.map_or_else(Vec::new, |clock| clock.environment()))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    };
    (0..PROCESSES).map(hammer).collect()
}

fn setting(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| value.parse().unwrap())
}
