//! Windows of a correct history have an order, and those of a broken one have none.

use lockhouse_testkit::broken;
use lockhouse_testkit::history::{Answer, Asked, Call, Held, Operation, Refused};
use lockhouse_testkit::linear::windows;

use crate::variants::drilled;

#[tokio::test]
async fn a_store_that_is_whole_has_an_order() {
    let (history, _) = drilled(broken::whole()).await;
    let found = windows(&history);
    assert!(found.broken.is_empty(), "{:?}", found.broken);
    assert!(found.linearizable > 10, "{found:?}");
}

#[tokio::test]
async fn a_store_that_forgets_its_locks_has_none() {
    let variant = broken::variants().find(|v| v.name.starts_with("no locks"));
    let (history, _) = drilled((variant.unwrap().sabotage)()).await;
    assert!(!windows(&history).broken.is_empty());
}

fn operation(client: u32, begun: u64, ended: u64, call: Call, answer: Answer) -> Operation {
    Operation {
        client,
        call,
        begun,
        ended,
        answer,
    }
}

fn acquire(id: &str) -> Call {
    Call::Acquire(Asked {
        id: id.into(),
        permits: vec![("s".into(), 1)],
        owner: None,
        ttl_us: None,
        waits: false,
        priority: 0,
    })
}

fn granted() -> Answer {
    let permits = vec![Held {
        semaphore: "s".into(),
        count: 1,
        fence: None,
        slots: None,
    }];
    Answer::Granted { permits, now: true }
}

fn exhausted() -> Answer {
    Answer::Refused(Refused::Exhausted(vec!["s".into()]))
}

fn define() -> Operation {
    let call = Call::Define {
        semaphore: "s".into(),
        capacity: 1,
    };
    operation(0, 1, 2, call, Answer::Done)
}

fn release(begun: u64, ended: u64) -> Operation {
    let call = Call::Release { id: "a".into() };
    let answer = Answer::Ended {
        now: true,
        reason: "released".into(),
    };
    operation(1, begun, ended, call, answer)
}

/// A refusal may come before a release that it overlaps, and a grant after it.
#[test]
fn overlapping_calls_may_take_effect_in_any_order() {
    for second in [granted(), exhausted()] {
        let history = [
            define(),
            operation(1, 3, 4, acquire("a"), granted()),
            release(5, 9),
            operation(2, 6, 8, acquire("b"), second),
        ];
        assert!(windows(&history).broken.is_empty(), "{history:?}");
    }
}

/// A call that ended before another began must not be ordered after it.
#[test]
fn the_order_of_calls_that_do_not_overlap_is_kept() {
    let history = [
        define(),
        operation(1, 3, 4, acquire("a"), granted()),
        release(5, 6),
        operation(2, 7, 8, acquire("b"), exhausted()),
    ];
    assert_eq!(windows(&history).broken.len(), 1);
    let history = [
        define(),
        operation(1, 3, 4, acquire("a"), granted()),
        operation(2, 5, 6, acquire("b"), granted()),
    ];
    assert_eq!(windows(&history).broken.len(), 1);
}

/// So many calls under way at once have too many orders to check.
#[test]
fn a_window_that_is_too_wide_is_passed_over() {
    let all_at_once = |many: u32| -> Vec<Operation> {
        let refused = || Answer::Refused(Refused::Exhausted(vec!["s".into()]));
        let call = |nth: u32| acquire(&nth.to_string());
        let asks = (0..many).map(|nth| operation(nth, u64::from(nth), 1_000, call(nth), refused()));
        asks.collect()
    };
    let (narrow, wide) = (windows(&all_at_once(8)), windows(&all_at_once(40)));
    assert_eq!((narrow.passed_over, wide.passed_over), (0, 1));
    assert_eq!((wide.linearizable, wide.broken.len()), (0, 0));
}
