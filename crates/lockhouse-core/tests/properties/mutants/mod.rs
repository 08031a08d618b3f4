//! Wrong variants of `decide`. Each must be caught, or the properties prove nothing.

mod causes;
mod conditions;
mod permits;
mod requests;
mod sessions;
mod shape;
mod slots;
mod templates;

use lockhouse_core::decide;

use crate::check::{Decide, check};
use crate::some_sequences;

const SEQUENCES: usize = 1_000;

/// How many sequences may be needed until a mutant is caught. Most need a few.
const AT_MOST: usize = 5_000;

/// Breaks `decide`, and expects some sequence to break `rule`, in a commit in which the comparison with the model fails as
/// well.
fn assert_caught(rule: &str, wrong: Decide) {
    let caught = some_sequences(AT_MOST).any(|steps| {
        let broken = check(wrong, &steps).err().unwrap_or_default();
        let breaks = |rule: &str| broken.iter().any(|broken| broken.rule == rule);
        breaks(rule) && (breaks("answers") || breaks("changes"))
    });
    assert!(caught, "{rule} was broken, and nothing noticed");
}

#[test]
fn nothing_is_caught_when_nothing_is_broken() {
    assert!(some_sequences(SEQUENCES).all(|steps| check(decide, &steps).is_ok()));
}
