//! A short torture of every store. The seed is `LOCKHOUSE_TORTURE_SEED`, if it is set. `scripts/torture` does longer runs.

use lockhouse_testkit::place;
use lockhouse_testkit::torture::faults::Fault;
use lockhouse_testkit::torture::short;

/// The program whose processes the runs start.
const TORTURE: &str = env!("CARGO_BIN_EXE_torture");

/// The faults of a database. A fault at a COMMIT counts only if there was a COMMIT.
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
    let report = short(TORTURE, store, faults, |_| ()).await;
    assert!(report.violations.is_empty(), "see above");
    for fault in faults {
        assert!(report.times(*fault) > 0, "{fault} did not come");
    }
    assert!(report.operations > 100 && report.audits > 0);
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

/// P1 to P11. Longer runs also set the database's clock, which needs long pauses before and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let faults = DATABASE.map(|fault| match fault {
        Fault::ClockDatabase => Fault::ClockServer,
        other => other,
    });
    breaks_nothing_on_server("postgres", "LOCKHOUSE_TEST_POSTGRES_URL", &faults).await;
}

/// P1 to P11. The test of `valkey`, which is the same store, has the other faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    let faults = [
        Fault::KillDatabase,
        Fault::RestartDatabase,
        Fault::StopDatabase,
        Fault::Cut,
        Fault::CommitCut,
        Fault::CommitKillServer,
        Fault::CommitKillDatabase,
        Fault::ClockDatabase,
    ];
    breaks_nothing_on_server("redis", "LOCKHOUSE_TEST_REDIS_URL", &faults).await;
}

/// P1 to P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valkey() {
    let faults = [
        Fault::KillDatabase,
        Fault::RestartDatabase,
        Fault::StopDatabase,
        Fault::Cut,
        Fault::HalfOpen,
        Fault::StopClient,
        Fault::Connections,
        Fault::ReadOnly,
    ];
    breaks_nothing_on_server("valkey", "LOCKHOUSE_TEST_VALKEY_URL", &faults).await;
}
