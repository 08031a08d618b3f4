//! A short torture of every store, and of one without its locks, which must be found out. The seed is
//! `LOCKHOUSE_TORTURE_SEED`, if it is set; `scripts/torture` does it by hand, and for longer.

use std::path::Path;
use std::time::Duration;

use lockhouse_testkit::place;
use lockhouse_testkit::torture::faults::Fault;
use lockhouse_testkit::torture::{Report, Size, run};
use tokio::sync::Semaphore;

/// The program whose processes the runs start.
const TORTURE: &str = env!("CARGO_BIN_EXE_torture");

/// Two at a time: each has many processes, which have to be at work again in time.
static TURN: Semaphore = Semaphore::const_new(2);

async fn torture(store: &str, faults: &[Fault], seconds: u64, sabotage: Option<&str>) -> Report {
    let _turn = TURN.acquire().await.unwrap();
    let seed = std::env::var("LOCKHOUSE_TORTURE_SEED");
    let folder = tempfile::Builder::new()
        .prefix("torture")
        .tempdir()
        .unwrap();
    // PostgreSQL's own user has to get there.
    let status = std::process::Command::new("chmod")
        .arg("755")
        .arg(folder.path())
        .status();
    assert!(status.unwrap().success());
    let size = Size {
        store: store.to_owned(),
        faults: faults.to_vec(),
        tasks: 8,
        calm: Duration::from_millis(1_500),
        duration: Duration::from_secs(seconds),
        seed: seed.map_or(1, |seed| seed.parse().unwrap()),
        folder: folder.path().to_owned(),
        fill: false,
        scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts"),
        sabotage: sabotage.map(str::to_owned),
        rounds: if sabotage.is_some() { 1 } else { 3 },
        until_broken: sabotage.is_some(),
        says: true,
    };
    let report = run(Path::new(TORTURE), &size).await;
    println!("{report}");
    if sabotage.is_none() && !report.violations.is_empty() {
        println!("the notes are in {:?}", folder.keep());
    }
    report
}

const DATABASE: &[Fault] = &[
    Fault::KillDatabase,
    Fault::CommitCut,
    Fault::CommitKillServer,
    Fault::Garbled,
    Fault::RepeatedRequests,
    Fault::KillClient,
    Fault::ClockDatabase,
];

async fn breaks_nothing(store: &str, variable: &str, faults: &[Fault]) {
    if place::server_url(variable).is_none() {
        return;
    }
    let report = torture(store, faults, 9, None).await;
    assert!(report.violations.is_empty(), "see above");
    assert!(report.operations > 100 && report.faults() >= 1 && report.windows() > 0);
}

/// P1 to P10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    let faults = [
        Fault::KillServer,
        Fault::LostReplies,
        Fault::LockStorm,
        Fault::StopClient,
        Fault::KillClient,
        Fault::ClockDatabase,
    ];
    let report = torture("sqlite", &faults, 9, None).await;
    assert!(report.violations.is_empty(), "see above");
    assert!(report.operations > 100 && report.faults() >= 1 && report.windows() > 0);
}

/// P1 to P10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql() {
    breaks_nothing("mysql", "LOCKHOUSE_TEST_MYSQL_URL", DATABASE).await;
}

/// P1 to P10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb() {
    breaks_nothing("mariadb", "LOCKHOUSE_TEST_MARIADB_URL", DATABASE).await;
}

/// P1 to P10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    breaks_nothing("postgres", "LOCKHOUSE_TEST_POSTGRES_URL", DATABASE).await;
}

/// The checkers can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_locks_is_found_out() {
    if place::server_url("LOCKHOUSE_TEST_POSTGRES_URL").is_none() {
        return;
    }
    let faults = [Fault::KillClient, Fault::LostReplies];
    let report = torture("postgres", &faults, 20, Some("&sabotage=no_lock")).await;
    let promises = ["P1", "P2", "P7"];
    let named = |violation: &String| {
        promises
            .iter()
            .any(|promise| violation.starts_with(promise))
    };
    assert!(
        report.violations.iter().any(named),
        "{:?}",
        report.violations
    );
}
