//! The engine over a store in memory, under virtual time, by seeds; and that its checks find what is
//! broken. docs/proof.md says what is shown by this.

use lockhouse_testkit::simulation::{Break, check, plan, run};

/// P1 to P11: no seed breaks a promise.
#[test]
fn a_thousand_seeds_keep_the_promises() {
    for seed in 0..1_000 {
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

/// Whatever is broken is found before long, and the right promise is named.
#[test]
fn what_is_broken_is_found() {
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
    found(&all, 300, 12);
}

/// P10, P11: so is what is broken in the line of all processes. It takes two servers, and waits of more than half a
/// second.
#[test]
fn what_is_broken_between_processes_is_found() {
    let all = [
        (Break::NeverRegisters, "P11"),
        (Break::PassesNobodyOver, "P10"),
        (Break::PassesAllOver, "P11"),
        (Break::WindowWithoutBound, "P11"),
        (Break::LosesWake, "P10"),
        (Break::IgnoresPriority, "P11"),
    ];
    found(&all, 3_000, 12);
}

/// So is what is broken of templates, of their semaphores' lines and of slots.
#[test]
fn what_is_broken_of_templates_and_slots_is_found() {
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
        (Break::ReservesWithoutKey, "P11"),
        (Break::LosesPlaceAtKey, "P11"),
    ];
    found(&all, 3_000, 16);
}

/// Within so many seeds, and by so few steps.
fn found(all: &[(Break, &str)], seeds: u64, most: usize) {
    let missed = all.iter().filter_map(|(breaks, promise)| {
        let failure = (0..seeds).find_map(|seed| check(seed, Some(*breaks)).err());
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
