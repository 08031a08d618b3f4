//! How many instructions a pair of an acquire and a release takes, by `decide` alone and through the
//! engine on a store in memory. Times differ between runs; these counts hardly do.
//! `docs/adr/0009-counting-instructions.md` says why it is done in this way.
//!
//! Without valgrind these tests are left out, unless `LOCKHOUSE_TEST_FULL` is set: then they fail.

mod callgrind;
mod limits;

use callgrind::Callgrind;
use limits::{FLAT, LIMITS, SLOTTED, over};

#[test]
fn decide_takes_no_more_than_it_did() {
    check("decide-");
}

#[test]
fn the_engine_takes_no_more_than_it_did() {
    check("engine-");
}

/// P12: 1,000 held permits and 10,000 ended requests cost a pair nothing. The count detects code that adds up all held
/// permits.
#[test]
fn a_pair_costs_no_more_where_many_hold_and_have_held() {
    let Some(callgrind) = Callgrind::find() else {
        return;
    };
    let empty = callgrind.a_pair("engine-empty");
    let times = |workload| {
        let times = callgrind.a_pair(workload) as f64 / empty as f64;
        println!("{workload}: {times:.3} times the {empty} of engine-empty, limit {FLAT}");
        times
    };
    let crowded = times("engine-crowded");
    assert!(crowded <= FLAT, "engine-crowded: {crowded:.3}, over {FLAT}");
    assert!(times("engine-crowded-summing") > FLAT);
}

/// A semaphore of capacity 64 with slots costs little more than without; the last free slot is found without a look at each
/// of the others.
#[test]
fn slots_cost_at_most_a_tenth_more() {
    let Some(callgrind) = Callgrind::find() else {
        return;
    };
    // In an engine, slots take fewer instructions than counts differ from run to run.
    for (plain, slotted, least) in [
        ("decide-1-last", "decide-1-last-slotted", 1.0),
        ("engine-64", "engine-64-slotted", 0.98),
    ] {
        let (without, with) = (callgrind.a_pair(plain), callgrind.a_pair(slotted));
        let times = with as f64 / without as f64;
        println!("{slotted}: {times:.3} times the {without} of {plain}, limit {SLOTTED}");
        assert!(times > least, "{slotted}: its slots were not counted");
        assert!(times <= SLOTTED, "{slotted}: {times:.3}, over {SLOTTED}");
    }
}

/// The limits are narrow enough to detect extra work.
#[test]
fn a_decision_that_is_made_twice_is_found_out() {
    let Some(callgrind) = Callgrind::find() else {
        return;
    };
    let count = callgrind.a_pair("decide-1-twice");
    let complaint = over("decide-1", count).expect("is over its limit");
    let said = format!("decide-1: {count} instructions a pair, over its limit of ");
    assert!(complaint.starts_with(&said), "{complaint}");
}

/// Checks each workload whose name starts with `beginning` against its limit.
fn check(beginning: &str) {
    let Some(callgrind) = Callgrind::find() else {
        return;
    };
    let mut complaints = Vec::new();
    for (workload, limit) in LIMITS {
        if !workload.starts_with(beginning) {
            continue;
        }
        let count = callgrind.a_pair(workload);
        println!("{workload}: {count}, limit {limit}");
        complaints.extend(over(workload, count));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
