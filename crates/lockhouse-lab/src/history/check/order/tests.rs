use super::*;
use crate::history::{Asked, Held};

const MS: u64 = 1_000;

fn asks(begun_ms: u64, ended_ms: u64, answer: Answer) -> Operation {
    let asked = Asked {
        id: begun_ms.to_string(),
        permits: vec![("s".into(), 1)],
        owner: None,
        ttl_us: None,
        waits: true,
        priority: 0,
    };
    Operation {
        client: 1,
        call: Call::Acquire(asked),
        begun: begun_ms * MS,
        ended: ended_ms * MS,
        answer,
    }
}

/// A caller asks for a permit of "s", waits, and is granted it with `fence`.
fn waits(begun_ms: u64, ended_ms: u64, fence: i64) -> Operation {
    let held = Held {
        semaphore: "s".into(),
        count: 1,
        fence: Some(fence),
        slots: None,
    };
    let permits = vec![held];
    asks(begun_ms, ended_ms, Answer::Granted { permits, now: true })
}

fn gives_up(begun_ms: u64, ended_ms: u64) -> Operation {
    let no_room = Refused::Exhausted(vec!["s".into()]);
    asks(begun_ms, ended_ms, Answer::Refused(no_room))
}

/// A caller releases the request that was asked for at 0.
fn releases(begun_ms: u64, ended_ms: u64) -> Operation {
    let call = Call::Release { id: "0".into() };
    Operation {
        call,
        ..asks(begun_ms, ended_ms, Answer::Done)
    }
}

fn with(mut operation: Operation, change: impl FnOnce(&mut Asked)) -> Operation {
    if let Call::Acquire(asked) = &mut operation.call {
        change(asked);
    }
    operation
}

/// How many waiters were overtaken, and how many pairs were decided.
fn found(history: &[Operation], troubled_ms: &[(u64, u64)]) -> (usize, u64) {
    let troubled = troubled_ms.iter().map(|(from, to)| (from * MS, to * MS));
    let (found, decided) = overtaken(history, &troubled.collect::<Vec<_>>());
    assert!(found.iter().all(|found| found.promise == Promise::P11));
    (found.len(), decided)
}

#[test]
fn a_waiter_that_came_long_before_and_is_served_later_was_overtaken() {
    let (first, later) = (waits(0, 9_000, 2), waits(5_000, 6_000, 1));
    assert_eq!(found(&[first, later], &[]), (1, 1));
}

#[test]
fn a_pair_counts_if_the_other_order_had_been_a_breach() {
    assert_eq!(
        found(&[waits(0, 5_000, 1), waits(1_000, 6_000, 2)], &[]),
        (0, 1)
    );
    assert_eq!(
        found(&[waits(0, 5_000, 1), waits(400, 6_000, 2)], &[]),
        (0, 0)
    );
    assert_eq!(
        found(&[waits(0, 5_000, 1), waits(5_100, 6_000, 2)], &[]),
        (0, 0)
    );
}

#[test]
fn a_waiter_that_gives_up_after_one_that_came_later_was_served_was_overtaken() {
    assert_eq!(
        found(&[gives_up(0, 4_000), waits(2_000, 3_000, 1)], &[]),
        (1, 1)
    );
    let slow = releases(3_000, 3_200);
    let history = [gives_up(0, 4_000), waits(2_000, 3_900, 1), slow];
    assert_eq!(found(&history, &[]), (0, 0), "it may have given up before");
}

#[test]
fn half_a_second_and_one_commit_are_allowed() {
    let overtakes = |later_ms: u64, commit_ms: u64| {
        let (first, second) = (waits(0, 4_000, 2), waits(later_ms, 3_000, 1));
        let commit = releases(400, 400 + commit_ms);
        found(&[first, second, commit], &[]).0
    };
    assert_eq!((overtakes(500, 0), overtakes(510, 0)), (0, 1));
    assert_eq!((overtakes(540, 50), overtakes(560, 50)), (0, 1));
    assert_eq!((overtakes(690, 200), overtakes(710, 200)), (0, 1));
}

/// After a slow commit a process may be passed over, since it claims the permits left to it too late.
#[test]
fn a_waiter_counts_as_one_that_came_at_the_end_of_a_slow_commit() {
    let of = |commit: Operation| {
        let history = [waits(0, 9_000, 2), waits(5_000, 6_000, 1), commit];
        found(&history, &[])
    };
    assert_eq!(of(releases(1_000, 4_400)), (1, 1));
    assert_eq!(of(releases(1_000, 4_600)), (0, 0));
    assert_eq!(of(releases(1_000, 5_100)), (0, 0), "it was granted then");
}

/// Another process may learn of neither the deletion nor the new definition, and enters the line again.
#[test]
fn a_waiter_counts_as_one_that_came_when_the_semaphore_was_deleted() {
    let of = |name: &str, deleted_ms: u64, answer: Answer| {
        let semaphore = name.into();
        let deletion = Operation {
            call: Call::Delete { semaphore },
            ..asks(deleted_ms, deleted_ms + 100, answer)
        };
        let history = [waits(0, 9_000, 2), waits(5_000, 6_000, 1), deletion];
        found(&history, &[])
    };
    assert_eq!(of("s", 4_300, Answer::Done), (1, 1));
    assert_eq!(of("s", 4_500, Answer::Done), (0, 0));
    assert_eq!(of("s", 4_500, Answer::Unknown), (0, 0));
    let in_use = Answer::Refused(Refused::Other("in use".into()));
    assert_eq!(of("s", 4_500, in_use), (1, 1));
    assert_eq!(of("t", 4_500, Answer::Done), (1, 1));
}

#[test]
fn a_slow_commit_on_another_semaphore_does_not_count() {
    let elsewhere = with(asks(1, 2, Answer::Unknown), |asked| {
        asked.permits[0].0 = "t".into();
    });
    let slow = Operation {
        call: Call::Release { id: "1".into() },
        ..releases(1_000, 5_100)
    };
    let history = [elsewhere, slow, waits(0, 9_000, 2), waits(5_000, 6_000, 1)];
    assert_eq!(found(&history, &[]), (1, 1));
}

#[test]
fn nothing_is_decided_where_all_commits_are_slow() {
    let commits = (0..9).map(|nth| releases(nth * 1_000, nth * 1_000 + 900));
    let history = commits.chain([waits(0, 9_000, 2), waits(5_000, 6_000, 1)]);
    assert_eq!(found(&history.collect::<Vec<_>>(), &[]), (0, 0));
}

#[test]
fn a_call_that_was_never_answered_is_no_commit() {
    for (ended_ms, answer) in [(9_000, Answer::Unknown), (NEVER / MS, Answer::Unknown)] {
        let lost = Operation {
            answer,
            ..releases(100, ended_ms)
        };
        let history = [waits(0, 4_000, 2), waits(600, 3_000, 1), lost];
        assert_eq!(found(&history, &[]).0, 1);
    }
}

#[test]
fn an_ask_for_more_is_not_overtaken_by_one_for_less() {
    let large = with(waits(0, 9_000, 2), |asked| asked.permits[0].1 = 2);
    assert_eq!(found(&[large, waits(5_000, 6_000, 1)], &[]), (0, 0));
}

#[test]
fn an_ask_that_waits_for_something_else_too_may_be_overtaken() {
    let both = with(waits(0, 9_000, 2), |asked| {
        asked.permits.push(("t".into(), 1))
    });
    assert_eq!(found(&[both, waits(5_000, 6_000, 1)], &[]), (0, 0));
    let tries = with(waits(0, 9_000, 2), |asked| asked.waits = false);
    assert_eq!(found(&[tries, waits(5_000, 6_000, 1)], &[]), (0, 0));
}

/// P11.
#[test]
fn an_ask_without_a_wait_overtakes_nobody() {
    let tries = with(waits(5_000, 5_100, 1), |asked| asked.waits = false);
    assert_eq!(found(&[waits(0, 9_000, 2), tries], &[]), (1, 1));
}

#[test]
fn a_step_of_priority_is_worth_ten_seconds() {
    let urgent = |begun, ended, fence| with(waits(begun, ended, fence), |asked| asked.priority = 1);
    // Two waiters, and a third one that comes before both by its priority.
    let ignored = [
        waits(0, 3_000, 1),
        waits(2_000, 4_000, 2),
        urgent(1_000, 5_000, 3),
    ];
    assert_eq!(found(&ignored, &[]).0, 1);
    let obeyed = [
        waits(0, 4_000, 2),
        waits(2_000, 5_000, 3),
        urgent(1_000, 3_000, 1),
    ];
    assert_eq!(found(&obeyed, &[]), (0, 3));
    let alone = [waits(0, 3_000, 1), urgent(1_000, 5_000, 2)];
    assert_eq!(
        found(&alone, &[]),
        (0, 0),
        "the grant may be from before the urgent ask"
    );
    let late = [waits(0, 14_000, 1), urgent(11_000, 15_000, 2)];
    assert_eq!(
        found(&late, &[]),
        (0, 1),
        "it came too late for its priority"
    );
}

/// On a mutex the later waiter is granted after the release, and the urgent one was there by then.
#[test]
fn a_mutex_is_granted_when_its_holder_may_have_let_go() {
    let urgent = with(waits(100, 4_000, 3), |asked| asked.priority = 1);
    let holder = with(waits(0, 10, 1), |asked| asked.id = "holder".into());
    let of = |capacity: i64, released_ms: u64| {
        let define = Operation {
            call: Call::Define {
                semaphore: "s".into(),
                capacity,
            },
            ..releases(0, 1)
        };
        let release = Operation {
            call: Call::Release {
                id: "holder".into(),
            },
            ..releases(released_ms, released_ms + 1)
        };
        let later = waits(50, 3_000, 2);
        let history = [define, holder.clone(), urgent.clone(), later, release];
        found(&history, &[]).0
    };
    assert_eq!((of(1, 2_000), of(1, 600)), (1, 0));
    assert_eq!(of(2, 2_000), 0, "there was room for two");
}

#[test]
fn an_ask_that_is_sent_again_may_have_its_first_place() {
    let again = |ask| with(ask, |asked| asked.id = "again".into());
    let lost = Operation {
        answer: Answer::Unknown,
        ..again(waits(100, 4_900, 1))
    };
    let history = [waits(0, 9_000, 2), lost, again(waits(5_000, 6_000, 1))];
    assert_eq!(found(&history, &[]), (0, 0));
}

#[test]
fn nothing_is_decided_of_a_grant_while_something_is_wrong() {
    let history = [waits(0, 9_000, 2), waits(5_000, 6_000, 1)];
    for troubled in [(4_000, 5_500), (5_500, 5_600), (5_900, 20_000)] {
        assert_eq!(found(&history, &[troubled]), (0, 0), "{troubled:?}");
    }
    assert_eq!(
        found(&history, &[(6_100, 20_000)]),
        (1, 1),
        "it was over before"
    );
}

/// Fences that do not rise break P7, and tell nothing of the order.
#[test]
fn nothing_is_decided_of_grants_whose_fences_contradict_their_times() {
    let (first, second) = (waits(0, 3_000, 3), waits(1_000, 2_000, 2));
    let much_later = waits(9_000, 9_500, 1);
    let history = [first, second, releases(3_100, 3_110), much_later];
    assert_eq!(found(&history, &[(4_000, 5_000)]), (0, 0));
}

#[test]
fn a_waiter_counts_as_one_that_came_when_all_were_at_work_again() {
    let history = [waits(0, 9_000, 2), waits(5_000, 6_000, 1)];
    assert_eq!(found(&history, &[(1_000, 4_600)]), (0, 0));
    assert_eq!(found(&history, &[(1_000, 4_400)]), (1, 1));
    // Two commits at once take no longer than one.
    assert_eq!(found(&history, &[(1_000, 3_000), (2_000, 4_400)]), (1, 1));
    assert_eq!(found(&history, &[(1_000, 4_600), (2_000, 3_000)]), (0, 0));
}

#[test]
fn spans_that_meet_are_one() {
    let spans = vec![(7, 8), (1, 5), (2, 3), (5, 6)];
    assert_eq!(merged(spans), [(1, 6), (7, 8)]);
}
