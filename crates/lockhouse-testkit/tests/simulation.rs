//! Simulations of the engine over a store in memory, under virtual time, by seeds. Their checks find stores that are broken on
//! purpose. docs/proof.md describes what this shows.

use lockhouse_testkit::simulation::{Break, Plan, check, check_plan, plan, run};

/// P1 to P11: no seed breaks a promise.
#[test]
fn two_thousand_seeds_keep_the_promises() {
    for seed in 0..2_000 {
        if let Err(failure) = check(seed, None) {
            panic!("{failure}");
        }
    }
}

/// The same seed gives the same run, to the microsecond.
#[test]
fn a_seed_is_the_same_run_again() {
    for seed in 0..300 {
        let [first, second] = [(), ()].map(|()| run(&plan(seed), None, true).log);
        let differs = first.iter().zip(&second).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

/// The checks soon find every break, and name the right promise.
#[test]
fn broken_stores_are_found() {
    let all = [
        (Break::GrantsOneTooMany, "P1"),
        (Break::EndsTwice, "P3"),
        (Break::LosesRelease, "P3"),
        (Break::RepeatsFence, "P7"),
        (Break::GrantsAgain, "P5"),
        (Break::GrantsHalf, "P6"),
        (Break::LastsForEver, "P8"),
        (Break::FindsNoLapsed, "P10"),
        (Break::ForgetsCall, "answers"),
        (Break::CountsNothingBack, "P2"),
        (Break::RenewsExpired, "P4"),
        (Break::SavesNothing, "P9"),
        (Break::ForgetsTurns, "P11"),
    ];
    found(&all, |_| true, 300, 12);
}

/// P11: they find breaks in the line of all processes. That takes two servers, and waits of more than half a second.
#[test]
fn engines_broken_between_processes_are_found() {
    let all = [
        (Break::NeverRegisters, "P11"),
        (Break::PassesAllOver, "P11"),
        (Break::WindowWithoutBound, "P11"),
        (Break::LosesWake, "P10"),
        (Break::IgnoresPriority, "P11"),
    ];
    let that = |plan: &Plan| plan.is_quiet() && plan.servers() > 1 && !plan.has_template();
    found(&all, that, 1_000, 12);
}

/// P10: they find a dead process for which all wait. That takes a killed server.
#[test]
fn a_dead_process_that_is_not_passed_over_is_found() {
    let that = |plan: &Plan| plan.to_string().contains("! killed") && !plan.has_template();
    found(&[(Break::PassesNobodyOver, "P10")], that, 1_000, 12);
}

/// The checks find breaks in templates and slots.
#[test]
fn broken_templates_and_slots_are_found() {
    let all = [
        (Break::SharesSlots, "P1"),
        (Break::MovesSlotsUp, "P1"),
        (Break::TakesHighestSlots, "slots"),
        (Break::CreatesForRefused, "P5"),
        (Break::RestartsFences, "P7"),
        (Break::ForgetsPurged, "P7"),
        (Break::OverridesResize, "P9"),
        (Break::DeletesHeld, "P2"),
        (Break::KeepsUnused, "templates"),
    ];
    found(&all, |_| true, 300, 16);
}

/// P11: they find breaks in the lines of a template's semaphores. That takes a run without faults.
#[test]
fn broken_keyed_lines_are_found() {
    let all = [
        (Break::ReservesWithoutKey, "P11"),
        (Break::LosesPlaceAtKey, "P11"),
    ];
    let that = |plan: &Plan| plan.is_quiet() && plan.has_template();
    found(&all, that, 500, 16);
}

/// Asserts that the first `plans` plans for which `that` is true show each break, in at most `most` steps.
fn found(all: &[(Break, &str)], that: impl Fn(&Plan) -> bool, plans: usize, most: usize) {
    let missed = all.iter().filter_map(|(breaks, promise)| {
        let mut plans = (0..).map(plan).filter(&that).take(plans);
        let failure = plans.find_map(|plan| check_plan(&plan, Some(*breaks)).err());
        let Some(failure) = failure else {
            return Some(format!("{breaks:?} is not found"));
        };
        let steps = failure.plan().numbers().len();
        let is_named = failure.violation().promise == *promise;
        (!is_named || steps > most).then(|| format!("{breaks:?} by {steps} steps: {failure}"))
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}
