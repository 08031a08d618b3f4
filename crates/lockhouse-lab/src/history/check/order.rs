//! P11: who was granted before somebody who came long before.
//!
//! It is decided of waiters that ask for one semaphore, and that got there what somebody else who came later had got
//! before: so much as that was free, and left to them. All have the same priority.
//!
//! P11 allows 500 ms and one commit. How long a commit took then is what the slowest call without a wait took: it has an
//! arrival and a commit, as each of the two has.

use std::collections::{BTreeMap, BinaryHeap};

use crate::history::{Answer, Asked, Operation, Promise, Violation};

/// How much later one may come who is served before, beside a commit.
const LATER_US: u64 = 500_000;

/// No commit counts for more: a slower one is trouble.
const SLOWEST_COMMIT_US: u64 = 1_000_000;

/// How long after something was mended processes may still be finding that out.
const MENDING_US: u64 = 5_000_000;

/// A grant on one semaphore.
#[derive(Clone, Copy, Debug)]
struct Grant<'a> {
    operation: &'a Operation,
    count: i64,
    fence: i64,
    /// Whether it waited for nothing else.
    waits_alone: bool,
}

/// Waiters that were overtaken, and how many pairs of waiters were looked at. At `troubled` times some process could
/// not come for what was left to it: whoever waited then may be overtaken by so much more.
pub fn overtaken(operations: &[Operation], troubled: &[(u64, u64)]) -> (Vec<Violation>, u64) {
    let (mut found, mut decided) = (Vec::new(), 0);
    for mut grants in by_semaphore(operations).into_values() {
        // From the last grant to the first, with those who were granted later by when they came.
        grants.sort_by_key(|grant| std::cmp::Reverse(grant.fence));
        let mut later: BinaryHeap<(std::cmp::Reverse<u64>, usize)> = BinaryHeap::new();
        for (index, grant) in grants.iter().enumerate() {
            if let Some((_, first)) = later.peek() {
                let first = &grants[*first];
                decided += 1;
                if first.count <= grant.count
                    && came_long_before(first, grant, troubled, operations)
                {
                    let what = format!(
                        "a waiter was granted under fence {} what one who came later had under {}",
                        first.fence, grant.fence
                    );
                    let shown = [first.operation, grant.operation];
                    found.push(Violation::new(Promise::P11, what).by(shown));
                }
            }
            if grant.waits_alone {
                later.push((std::cmp::Reverse(grant.operation.begun), index));
            }
        }
    }
    (found, decided)
}

fn came_long_before(
    first: &Grant<'_>,
    grant: &Grant<'_>,
    troubled: &[(u64, u64)],
    operations: &[Operation],
) -> bool {
    let (came, later) = (first.operation.begun, grant.operation.begun);
    let earlier = later.saturating_sub(came);
    if earlier <= LATER_US {
        return false;
    }
    let trouble = troubled.iter().map(|(from, to)| {
        let (from, to) = (*from, to.saturating_add(MENDING_US));
        to.min(grant.operation.ended).saturating_sub(from.max(came))
    });
    let trouble: u64 = trouble.sum();
    let commit = slowest_commit(operations, (came, grant.operation.ended));
    earlier > LATER_US.saturating_add(commit).saturating_add(trouble)
}

/// How long the slowest call took that did not wait, of those between two times.
fn slowest_commit(operations: &[Operation], (from, to): (u64, u64)) -> u64 {
    let took = operations.iter().filter_map(|operation| {
        let waits = operation.asked().is_some_and(|asked| asked.waits);
        let is_between = operation.begun < to && operation.ended > from;
        (is_between && !waits).then(|| operation.ended - operation.begun)
    });
    took.max().unwrap_or(0).min(SLOWEST_COMMIT_US)
}

fn by_semaphore(operations: &[Operation]) -> BTreeMap<&str, Vec<Grant<'_>>> {
    let mut grants: BTreeMap<&str, Vec<Grant<'_>>> = BTreeMap::new();
    for operation in operations {
        let (Some(Asked { waits, .. }), Answer::Granted { permits, now: true }) =
            (operation.asked(), &operation.answer)
        else {
            continue;
        };
        for held in permits {
            let Some(fence) = held.fence else { continue };
            grants.entry(&held.semaphore).or_default().push(Grant {
                operation,
                count: held.count,
                fence,
                waits_alone: *waits && permits.len() == 1,
            });
        }
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Held};

    /// Asks for a permit of "s" at that second, waits, and is granted under that fence so many seconds later.
    fn waits(begun_s: u64, for_s: u64, fence: i64) -> Operation {
        let asked = Asked {
            id: fence.to_string(),
            permits: vec![("s".into(), 1)],
            owner: None,
            ttl_us: None,
            waits: true,
        };
        let held = Held {
            semaphore: "s".into(),
            count: 1,
            fence: Some(fence),
            slots: None,
        };
        Operation {
            client: 1,
            call: Call::Acquire(asked),
            begun: begun_s * 1_000_000,
            ended: (begun_s + for_s) * 1_000_000,
            answer: Answer::Granted {
                permits: vec![held],
                now: true,
            },
        }
    }

    #[test]
    fn a_waiter_served_after_a_much_later_one_was_overtaken() {
        let history = [waits(0, 9, 2), waits(5, 1, 1)];
        let (found, decided) = overtaken(&history, &[]);
        assert_eq!((found.len(), decided), (1, 1));
        assert_eq!(found[0].promise, Promise::P11);
        let in_turn = [waits(0, 5, 1), waits(5, 1, 2)];
        assert!(overtaken(&in_turn, &[]).0.is_empty());
    }

    #[test]
    fn a_waiter_that_arrived_at_about_the_same_time_may_be_served_later() {
        let history = [at(waits(0, 0, 2), 4_600, 13_000), waits(5, 1, 1)];
        assert!(overtaken(&history, &[]).0.is_empty());
    }

    /// Times in milliseconds.
    fn at(mut operation: Operation, begun: u64, ended: u64) -> Operation {
        (operation.begun, operation.ended) = (begun * 1_000, ended * 1_000);
        operation
    }

    #[test]
    fn half_a_second_and_one_commit_are_allowed() {
        let release = |took: u64| {
            let released = Operation {
                call: Call::Release { id: "r".into() },
                answer: Answer::Unknown,
                ..waits(0, 0, 0)
            };
            at(released, 400, 400 + took)
        };
        let found = |later, commit| {
            let first = at(waits(0, 0, 2), 0, 3_000);
            let overtaker = at(waits(0, 0, 1), later, 2_000);
            overtaken(&[first, overtaker, release(commit)], &[]).0.len()
        };
        assert_eq!((found(500, 0), found(510, 0)), (0, 1));
        assert_eq!((found(540, 50), found(560, 50)), (0, 1));
        // A call that took that long is trouble, which is told otherwise.
        assert_eq!((found(1_490, 9_000), found(1_510, 9_000)), (0, 1));
    }

    #[test]
    fn an_ask_for_more_is_not_overtaken_by_one_for_less() {
        let mut large = waits(0, 9, 2);
        if let Answer::Granted { permits, .. } = &mut large.answer {
            permits[0].count = 2;
        }
        assert!(overtaken(&[large, waits(5, 1, 1)], &[]).0.is_empty());
    }

    #[test]
    fn a_waiter_whose_process_was_away_may_be_overtaken_by_that_time() {
        let history = [waits(0, 30, 2), waits(10, 1, 1)];
        let troubled = [(1_000_000, 6_000_000)];
        assert!(overtaken(&history, &troubled).0.is_empty());
        let long = [waits(0, 60, 2), waits(40, 1, 1)];
        assert_eq!(overtaken(&long, &troubled).0.len(), 1);
    }
}
