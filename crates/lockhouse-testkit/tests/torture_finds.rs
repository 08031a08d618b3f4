//! Torture finds stores that are broken on purpose: stores without their locks, unfair lines, a purge of young requests, and a
//! server that does not come back.

use std::time::Duration;

use lockhouse_testkit::broken::Flaw;
use lockhouse_testkit::place;
use lockhouse_testkit::torture::faults::Fault;
use lockhouse_testkit::torture::short;

/// The program whose processes the runs start.
const TORTURE: &str = env!("CARGO_BIN_EXE_torture");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_locks_is_found_out() {
    if place::server_url("LOCKHOUSE_TEST_POSTGRES_URL").is_none() {
        return;
    }
    let faults = [Fault::KillClient, Fault::LostReplies];
    let report = short(TORTURE, "postgres", &faults, |size| {
        size.without_locks = true;
        size.rest = Duration::ZERO;
        size.duration = Duration::from_secs(60);
        size.rounds = 1;
        size.once = false;
        size.until_broken = true;
    })
    .await;
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

async fn is_found_out(flaw: Flaw, promise: &str) {
    let report = short(TORTURE, "sqlite", &[Fault::LostReplies], |size| {
        size.flaw = Some(flaw);
        size.duration = Duration::from_secs(120);
        size.rounds = 1;
        size.once = false;
        size.until_broken = true;
    })
    .await;
    let mut violations = report.violations.iter();
    let is_named = violations.any(|violation| violation.starts_with(promise));
    assert!(is_named, "{:?}", report.violations);
}

/// P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_no_other_process_knows_of_is_found_out() {
    is_found_out(Flaw::NeverRegisters, "P11").await;
}

/// P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_passes_over_the_waiters_of_others_is_found_out() {
    is_found_out(Flaw::PassesAllOver, "P11").await;
}

/// P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_ignores_priority_is_found_out() {
    is_found_out(Flaw::IgnoresPriority, "P11").await;
}

/// P9: requests that were granted just now are unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_young_requests_is_found_out() {
    is_found_out(Flaw::PurgesAtAnyAge, "P9").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_stopped_is_found_out() {
    let report = short(TORTURE, "sqlite", &[Fault::StopServer], |size| {
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
