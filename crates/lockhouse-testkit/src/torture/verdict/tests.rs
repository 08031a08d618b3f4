use super::*;
use crate::history::{Asked, FELLOWS, Held, Move};
use crate::rows::{PermitRow, SemaphoreRow};
use crate::torture::segment::STALE_AFTER;

const SECOND: u64 = 1_000_000;
const AHEAD: i64 = 1_000_000_000;
const HOUR: i64 = 3_600_000_000;

/// The time in which answers may be lost.
const LOST: (u64, u64) = (3 * SECOND, 5 * SECOND);

fn operation(at: u64, call: Call, answer: Answer) -> Operation {
    Operation {
        client: 1,
        call,
        begun: at,
        ended: at + 1_000,
        answer,
    }
}

fn acquire(id: &str, ttl_us: Option<u64>) -> Call {
    Call::Acquire(Asked {
        id: id.into(),
        permits: vec![("s00001-plain-a".into(), 2)],
        owner: None,
        ttl_us,
        waits: false,
        priority: 0,
    })
}

fn granted(fence: i64) -> Answer {
    let held = Held {
        semaphore: "s00001-plain-a".into(),
        count: 2,
        fence: Some(fence),
        slots: None,
    };
    Answer::Granted {
        permits: vec![held],
        now: true,
    }
}

fn ended(reason: &str) -> Answer {
    Answer::Ended {
        now: true,
        reason: reason.into(),
    }
}

fn row(id: &str, fence: i64, times: (i64, Option<i64>, i64), reason: &str) -> PermitRow {
    let (granted, expires, released) = times;
    PermitRow {
        external_id: id.into(),
        semaphore: "s00001-plain-a".into(),
        count: 2,
        fence,
        slots: None,
        owner: None,
        state: "RELEASED".into(),
        end_reason: Some(reason.into()),
        granted_at: AHEAD + granted,
        expires_at: expires.map(|at| AHEAD + at),
        released_at: Some(AHEAD + released),
    }
}

/// A history without a violation: two callers hold, one after the other, and another is refused in between.
fn whole() -> (Vec<Operation>, Rows) {
    let define = Call::Define {
        semaphore: "s00001-plain-a".into(),
        capacity: 2,
    };
    let release = |id: &str| Call::Release { id: id.into() };
    let no_room = Refused::Exhausted(vec!["s00001-plain-a".into()]);
    let history = vec![
        operation(SECOND, define, Answer::Done),
        operation(2 * SECOND, acquire("s00001-a", None), granted(1)),
        operation(
            3 * SECOND,
            acquire("s00001-b", None),
            Answer::Refused(no_room),
        ),
        operation(4 * SECOND, release("s00001-a"), ended("released")),
        operation(5 * SECOND, acquire("s00001-c", None), granted(2)),
        operation(6 * SECOND, release("s00001-c"), ended("released")),
    ];
    let semaphore = SemaphoreRow {
        name: "s00001-plain-a".into(),
        capacity: 2,
        in_use: 0,
        fence: 2,
        created_at: 0,
        is_deleted: false,
    };
    let rows = Rows {
        semaphores: vec![semaphore],
        permits: vec![
            row("s00001-a", 1, (2_000_500, None, 4_000_500), "released"),
            row("s00001-c", 2, (5_000_500, None, 6_000_500), "released"),
        ],
        capacity_changes: Vec::new(),
    };
    (history, rows)
}

fn found(history: &[Operation], rows: &Rows, moves: &[Move]) -> Vec<String> {
    let moved = Moved {
        ahead: AHEAD,
        since: SECOND,
        until: 9 * SECOND,
        moves: moves.to_vec(),
    };
    let circumstances = Circumstances {
        moved,
        stale_after: STALE_AFTER,
        away: vec![LOST],
    };
    let troubles = Troubles {
        lost: vec![LOST],
        ..Troubles::default()
    };
    judge(Segment(1), history, rows, (&circumstances, &troubles)).violations
}

#[test]
fn a_consistent_history_breaks_nothing() {
    let (history, rows) = whole();
    assert_eq!(found(&history, &rows, &[]), [""; 0]);
    let verdict = judge(
        Segment(1),
        &history,
        &rows,
        (&Circumstances::default(), &Troubles::default()),
    );
    assert_eq!((verdict.windows, verdict.permits), (5, 2));
}

/// Staleness ends a request. Its holder learns that late, when another caller holds the permit.
#[test]
fn a_stale_permit_may_be_granted_again_before_its_holder_learns_of_the_end() {
    let (mut history, mut rows) = whole();
    (history[3].begun, history[3].ended) = (5 * SECOND + 500_000, 5 * SECOND + 600_000);
    history[3].answer = Answer::Ended {
        now: false,
        reason: "stale".into(),
    };
    rows.permits[0] = row("s00001-a", 1, (2_000_500, None, 4_000_500), "stale");
    assert_eq!(found(&history, &rows, &[]), [""; 0]);
    rows.permits[0].released_at = Some(AHEAD + 4_000_499);
    let found = found(&history, &rows, &[]);
    assert!(
        matches!(&found[..], [young] if young.starts_with("P3")),
        "{found:?}"
    );
}

/// The answer to a grant was lost, and another caller released the request before the first caller asked again.
#[test]
fn a_caller_answered_ended_may_have_been_granted() {
    let (mut history, rows) = whole();
    history[1].answer = Answer::Refused(Refused::Ended("released".into()));
    history[1].ended = 4 * SECOND + 3_000;
    assert_eq!(found(&history, &rows, &[]), [""; 0]);
}

#[test]
fn tampered_histories_are_found() {
    let is_found = |tamper: fn(&mut Vec<Operation>, &mut Rows), promise: &str| {
        let (mut history, mut rows) = whole();
        tamper(&mut history, &mut rows);
        let found = found(&history, &rows, &[]);
        assert!(
            found.iter().any(|v| v.contains(promise)),
            "{promise}: {found:?}"
        );
    };
    is_found(|_, rows| rows.permits[1].granted_at -= 3_000_000, "P1");
    is_found(|_, rows| rows.semaphores[0].in_use = 1, "P2");
    is_found(|history, _| drop(history.remove(3)), "P3");
    is_found(|_, rows| rows.permits[1].fence = 7, "P7");
    is_found(|_, rows| drop(rows.permits.remove(0)), "P9");
    is_found(
        |history, _| (history[2].begun, history[2].ended) = (7 * SECOND, 7 * SECOND + 9),
        "P10",
    );
    is_found(|history, _| history[2].answer = granted(9), "no order");
}

/// P10: a permit returns by its expiry, and a refusal for lack of room must be true.
#[test]
fn permits_that_do_not_return_by_their_expiry_are_found() {
    let (mut history, mut rows) = whole();
    let on_timed = |operation: &mut Operation| match &mut operation.call {
        Call::Acquire(asked) => asked.permits[0].0 = "s00001-timed".into(),
        Call::Define { semaphore, .. } => *semaphore = "s00001-timed".into(),
        _ => {}
    };
    history.iter_mut().for_each(on_timed);
    for operation in &mut history {
        match &mut operation.answer {
            Answer::Granted { permits, .. } => permits[0].semaphore = "s00001-timed".into(),
            Answer::Refused(Refused::Exhausted(on)) => on[0] = "s00001-timed".into(),
            _ => {}
        }
    }
    rows.semaphores[0].name = "s00001-timed".into();
    for row in &mut rows.permits {
        row.semaphore = "s00001-timed".into();
    }
    history[1].call = match history[1].call.clone() {
        Call::Acquire(asked) => Call::Acquire(Asked {
            ttl_us: Some(100_000),
            ..asked
        }),
        other => other,
    };
    // Nobody releases the request, and it expires.
    history.remove(3);
    let times = (2_000_500, Some(2_100_500), 2_100_500);
    rows.permits[0] = PermitRow {
        semaphore: "s00001-timed".into(),
        ..row("s00001-a", 1, times, "expired")
    };
    assert_eq!(found(&history, &rows, &[]), [""; 0]);
    let verdict = judge(
        Segment(1),
        &history,
        &rows,
        (&Circumstances::default(), &Troubles::default()),
    );
    assert_eq!(verdict.refusals, 1);
    // After the expiry, this refusal is wrong.
    (history[2].begun, history[2].ended) = (4 * SECOND, 4 * SECOND + 1_000);
    let found = found(&history, &rows, &[]);
    assert!(
        found.iter().any(|found| found.starts_with("P10")),
        "{found:?}"
    );
}

/// P8: a set clock may shorten or lengthen the lives of requests at that time, and no others.
#[test]
fn a_request_that_expires_as_the_clock_is_set_has_expired() {
    let (mut history, mut rows) = whole();
    history[1].call = acquire("s00001-a", Some(10 * SECOND));
    history[3].answer = ended("expired");
    let times = (2_000_500, Some(12_000_500), 4_000_500 + 5 * HOUR);
    rows.permits[0] = row("s00001-a", 1, times, "expired");
    // Windows are only of requests without a TTL.
    history.remove(2);
    let set = |at: u64, hours: i64| Move {
        from: at,
        to: at,
        off: hours * HOUR,
    };
    let moves = [set(3 * SECOND + 500_000, 5), set(4 * SECOND + 500_000, 0)];
    assert_eq!(found(&history, &rows, &moves), [""; 0]);
    assert!(
        found(&history, &rows, &[])
            .iter()
            .any(|v| v.starts_with("P8"))
    );
}

/// P9: a deletion that arrives twice may find its work done. Without a fault it may not.
#[test]
fn a_deletion_that_finds_nothing_was_done_only_if_there_was_a_fault() {
    let found_at = |at| {
        let (mut history, mut rows) = whole();
        let semaphore: String = "s00001-deleted".into();
        let define = |at| {
            let semaphore = semaphore.clone();
            let capacity = 2;
            operation(
                at,
                Call::Define {
                    semaphore,
                    capacity,
                },
                Answer::Done,
            )
        };
        let delete = Call::Delete {
            semaphore: semaphore.clone(),
        };
        let gone = Answer::Refused(Refused::UnknownSemaphore);
        history.extend([
            define(SECOND),
            operation(at, delete, gone),
            define(at + SECOND / 2),
        ]);
        rows.semaphores.push(SemaphoreRow {
            name: semaphore.clone(),
            ..rows.semaphores[0].clone()
        });
        found(&history, &rows, &[])
    };
    assert_eq!(found_at(4 * SECOND), [""; 0]);
    assert!(found_at(7 * SECOND)[0].starts_with("P9"));
}

/// If answers are lost, two releases at the same time may both claim the end. A later release may not.
#[test]
fn two_releases_at_once_may_both_claim_the_end_and_a_later_one_may_not() {
    let (mut history, rows) = whole();
    let release = |at| {
        let call = Call::Release {
            id: "s00001-a".into(),
        };
        operation(at, call, ended("released"))
    };
    history.push(release(4 * SECOND + 300));
    assert_eq!(found(&history, &rows, &[]), [""; 0]);
    history.push(release(4 * SECOND + 100_000));
    let found = found(&history, &rows, &[]);
    assert!(
        found.iter().any(|found| found.starts_with("P3")),
        "{found:?}"
    );
}

/// P8: a late grant counts for clients with an engine. A client of a server uses its own deadline.
#[test]
fn a_grant_that_comes_when_it_has_expired_is_found_out() {
    let found = |has_engine| {
        let (mut history, mut rows) = whole();
        let client = client::number(1, has_engine) * FELLOWS;
        history[4] = operation(5 * SECOND, acquire("s00001-c", Some(SECOND)), granted(2));
        history[4].ended = 8 * SECOND;
        history.truncate(5);
        rows.permits[1] = row(
            "s00001-c",
            2,
            (5_000_500, Some(6_000_500), 6_000_600),
            "expired",
        );
        // The client was awake.
        for at in (20..90).map(|tenth| tenth * SECOND / 10) {
            let beat = Call::Heartbeat {
                owner: "s00001-o".into(),
                ttl_us: SECOND,
            };
            history.push(operation(at, beat, Answer::Done));
        }
        history
            .iter_mut()
            .for_each(|operation| operation.client = client);
        found(&history, &rows, &[])
    };
    assert!(
        matches!(&found(true)[..], [late] if late.contains("P8")),
        "{:?}",
        found(true)
    );
    assert_eq!(found(false), [""; 0]);
}

/// A waiter that is refused for lack of room counts as served, too.
#[test]
fn late_recovery_is_reported() {
    let late = |begun, within: u64| {
        let (history, rows) = whole();
        let troubles = Troubles {
            begun: vec![(begun, Duration::from_micros(within))],
            ..Troubles::default()
        };
        let verdict = judge(
            Segment(1),
            &history,
            &rows,
            (&Circumstances::default(), &troubles),
        );
        verdict.violations
    };
    let begun = 2 * SECOND + SECOND / 2;
    assert_eq!(late(begun, SECOND), [""; 0]);
    assert_eq!(late(begun, SECOND / 3).len(), 1);
    assert_eq!(late(7 * SECOND, 30 * SECOND).len(), 1);
}
