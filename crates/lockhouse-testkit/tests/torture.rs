//! A short torture of every store, and of one without its locks, which must be found out. The seed is
//! `LOCKHOUSE_TORTURE_SEED`, if it is set; `scripts/torture` does it by hand, and for longer.

use std::path::Path;
use std::time::Duration;

use lockhouse_testkit::broken::Unfair;
use lockhouse_testkit::place;
use lockhouse_testkit::torture::faults::Fault;
use lockhouse_testkit::torture::{Report, Size, run};
use tokio::sync::Semaphore;

/// The program whose processes the runs start.
const TORTURE: &str = env!("CARGO_BIN_EXE_torture");

/// Two at a time: each has many processes, which have to be at work again in time.
static TURN: Semaphore = Semaphore::const_new(2);

/// How long a run may take until each fault has come.
const AT_MOST: Duration = Duration::from_secs(300);

async fn torture_without_locks(store: &str, faults: &[Fault]) -> Report {
    torture_as(store, faults, |size| {
        size.without_locks = true;
        size.duration = Duration::from_secs(60);
        size.rounds = 1;
        size.once = false;
        size.until_broken = true;
    })
    .await
}

async fn torture_unfairly(store: &str, unfair: Unfair) -> Report {
    torture_as(store, &[Fault::LostReplies], |size| {
        size.unfair = Some(unfair);
        size.duration = Duration::from_secs(120);
        size.rounds = 1;
        size.once = false;
        size.until_broken = true;
    })
    .await
}

async fn torture_as(store: &str, faults: &[Fault], sets: impl FnOnce(&mut Size)) -> Report {
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
    let mut size = Size {
        store: store.to_owned(),
        faults: faults.to_vec(),
        tasks: 4,
        calm: Duration::from_millis(300),
        duration: AT_MOST,
        seed: seed.map_or(1, |seed| seed.parse().unwrap()),
        folder: folder.path().to_owned(),
        fill: false,
        scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts"),
        without_locks: false,
        unfair: None,
        mends_late: false,
        rounds: 4,
        once: true,
        until_broken: false,
        says: true,
    };
    sets(&mut size);
    let is_true = !size.without_locks && size.unfair.is_none() && !size.mends_late;
    let report = run(Path::new(TORTURE), &size).await;
    println!("{report}");
    if is_true && !report.violations.is_empty() {
        println!("the notes are in {:?}", folder.keep());
    }
    report
}

/// A fault at a COMMIT counts if there was one.
const DATABASE: [Fault; 8] = [
    Fault::KillDatabase,
    Fault::CommitCut,
    Fault::CommitKillServer,
    Fault::Garbled,
    Fault::RepeatedRequests,
    Fault::RepeatedReplies,
    Fault::StopClient,
    Fault::ClockDatabase,
];

async fn breaks_nothing(store: &str, faults: &[Fault]) {
    let report = torture_as(store, faults, |_| ()).await;
    assert!(report.violations.is_empty(), "see above");
    for fault in faults {
        assert!(report.times(*fault) > 0, "{fault} did not come");
    }
    assert!(report.operations > 100 && report.windows() > 0);
    assert!(report.refusals() > 0, "nothing was decided of P10");
    assert!(report.in_turn() > 0, "nothing was decided of P11");
}

async fn breaks_nothing_on_server(store: &str, variable: &str, faults: &[Fault]) {
    if place::server_url(variable).is_some() {
        breaks_nothing(store, faults).await;
    }
}

/// P1 to P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    let faults = [
        Fault::KillServer,
        Fault::LostReplies,
        Fault::LockStorm,
        Fault::StopClient,
        Fault::KillClient,
        Fault::CommitKillServer,
        Fault::CommitKillClient,
        Fault::ClockDatabase,
        Fault::ReadOnly,
    ];
    breaks_nothing("sqlite", &faults).await;
}

/// P1 to P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql() {
    breaks_nothing_on_server("mysql", "LOCKHOUSE_TEST_MYSQL_URL", &DATABASE).await;
}

/// P1 to P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb() {
    breaks_nothing_on_server("mariadb", "LOCKHOUSE_TEST_MARIADB_URL", &DATABASE).await;
}

/// P1 to P11. Its clock, which is set with long pauses before and after, is left to longer runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let faults = DATABASE.map(|fault| match fault {
        Fault::ClockDatabase => Fault::ClockServer,
        other => other,
    });
    breaks_nothing_on_server("postgres", "LOCKHOUSE_TEST_POSTGRES_URL", &faults).await;
}

/// P1 to P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    let faults = [
        Fault::KillDatabase,
        Fault::RestartDatabase,
        Fault::StopDatabase,
        Fault::CommitCut,
        Fault::CommitKillServer,
        Fault::CommitKillDatabase,
        Fault::Cut,
        Fault::HalfOpen,
        Fault::StopClient,
        Fault::ClockDatabase,
        Fault::Connections,
        Fault::ReadOnly,
    ];
    breaks_nothing_on_server("redis", "LOCKHOUSE_TEST_REDIS_URL", &faults).await;
}

/// The checkers can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_locks_is_found_out() {
    if place::server_url("LOCKHOUSE_TEST_POSTGRES_URL").is_none() {
        return;
    }
    let faults = [Fault::KillClient, Fault::LostReplies];
    let report = torture_without_locks("postgres", &faults).await;
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

/// P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_line_of_all_processes_is_found_out() {
    let all = [
        Unfair::NeverRegisters,
        Unfair::PassesAllOver,
        Unfair::IgnoresPriority,
    ];
    for unfair in all {
        let report = torture_unfairly("sqlite", unfair).await;
        let mut violations = report.violations.iter();
        let is_named = violations.any(|violation| violation.starts_with("P11"));
        assert!(is_named, "{unfair:?}: {:?}", report.violations);
    }
}

/// So can the look whether all are at work again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_stopped_is_found_out() {
    let report = torture_as("sqlite", &[Fault::StopServer], |size| {
        size.mends_late = true
    })
    .await;
    let says = |violation: &String| violation.contains("was at work again after");
    assert!(
        report.violations.iter().any(says),
        "{:?}",
        report.violations
    );
}
