//! How requests end, when callers learn it, and how large semaphores are.

use super::*;
use crate::history::late_grants;

#[test]
fn a_correct_history_passes() {
    let mut story = story();
    story.holds(SECOND, &ask("a"));
    story.releases(2 * SECOND, "a");
    story.holds(3 * SECOND, &ask_for("b", SECOND));
    assert_eq!(story.found(), []);
}

/// P3: a sweep ends requests that are a day old as stale, and no younger ones.
#[test]
fn a_stale_request_is_a_day_old() {
    let ends_after = |age: i64| {
        let mut story = story();
        story.holds(SECOND, &ask("a"));
        story.is_over("a", "stale", stamp(SECOND + TAKES / 2) + age);
        story.found()
    };
    assert_eq!(ends_after(24 * HOUR), []);
    assert_eq!(ends_after(24 * HOUR - 1), [Promise::P3]);
    assert_eq!(ends_after(0), [Promise::P3]);
}

/// P3: a request is a day old by the store's clock, also if a test has set that clock.
#[test]
fn staleness_is_judged_by_the_clock_of_that_time() {
    let mut story = story();
    story.holds(SECOND, &ask("a"));
    story.clock_is_set(2 * SECOND, 25 * HOUR);
    story.is_over("a", "stale", stamp(3 * SECOND) + 25 * HOUR);
    assert_eq!(story.found(), []);
    story.is_over("a", "stale", stamp(3 * SECOND) + 20 * HOUR);
    assert_eq!(story.found(), [Promise::P3]);
}

/// P3, P1: under an upkeep with a shorter age, a stale request has that age, and is held until then.
#[test]
fn staleness_is_judged_by_the_age_that_the_upkeep_has() {
    let found = |ends_at, next_at| {
        let mut story = story();
        story.holds(SECOND, &ask("a"));
        story.is_over("a", "stale", stamp(ends_at));
        story.holds(next_at, &ask("b"));
        story.found_if_stale_after(Duration::from_secs(2))
    };
    assert_eq!(found(3 * SECOND + TAKES, 4 * SECOND), []);
    assert_eq!(found(2 * SECOND, 4 * SECOND), [Promise::P3]);
    assert_eq!(
        found(2 * SECOND, 5 * SECOND / 2),
        [Promise::P3, Promise::P1]
    );
}

/// P3.
#[test]
fn an_end_in_no_known_way_is_none() {
    for reason in ["released", "Released", "evicted", ""] {
        let mut story = story();
        story.holds(SECOND, &ask("a"));
        story.is_over("a", reason, stamp(2 * SECOND));
        assert_eq!(story.found(), [Promise::P3], "{reason}");
    }
}

/// P1: a row that says "stale" too early does not shorten the hold that the grant promised its holder.
#[test]
fn a_request_that_is_not_yet_stale_counts_as_held() {
    let mut story = story();
    story.holds(SECOND, &ask("a"));
    story.is_over("a", "stale", stamp(2 * SECOND));
    story.holds(3 * SECOND, &ask("b"));
    assert_eq!(story.found(), [Promise::P3, Promise::P1]);
}

/// A request is granted for a second, and its caller is answered `us` after the ask.
fn told_after(us: u64) -> Story {
    let mut story = story();
    // Another grant shows how far the clocks are apart.
    story.rows.semaphores[0].capacity = 2;
    story.history[0].call = define(2);
    story.holds(SECOND / 2, &ask("other"));
    story.releases(3 * SECOND / 4, "other");
    story.holds(SECOND, &ask_for("a", SECOND));
    story.history.last_mut().unwrap().ended = SECOND + us;
    story
}

/// Adds signs of life of another client, of the same process or of another one.
fn awake(story: &mut Story, client: u32, from: u64, to: u64) {
    for at in (from..to).step_by(250_000) {
        let owner = "probe".into();
        let ttl_us = SECOND;
        let beat = story.says(at, Call::Heartbeat { owner, ttl_us }, Answer::Done);
        beat.client = client;
    }
}

/// P8.
#[test]
fn a_grant_is_answered_before_it_has_expired() {
    let found = |us, client| {
        let mut story = told_after(us);
        awake(&mut story, client, SECOND, 9 * SECOND);
        story.found()
    };
    assert_eq!(found(5 * SECOND, 7), [Promise::P8]);
    assert_eq!(found(SECOND / 2, 7), []);
    // The signs of life are of another process.
    assert_eq!(found(5 * SECOND, 1_007), []);
}

/// P8: a stopped client records late an answer that came in time.
#[test]
fn a_stopped_client_may_record_an_answer_late() {
    let mut story = told_after(9 * SECOND);
    awake(&mut story, 7, SECOND, 3 * SECOND / 2);
    awake(&mut story, 7, 10 * SECOND - 300_000, 11 * SECOND);
    assert_eq!(story.found(), []);
}

/// P8: a late grant is not judged if the clock was set, nor for clients that are answered over a link.
#[test]
fn a_late_grant_is_judged_where_it_can_be() {
    let mut story = told_after(5 * SECOND);
    awake(&mut story, 7, SECOND, 9 * SECOND);
    let late = |story: &Story, is_judged: fn(u32) -> bool| {
        late_grants(&story.history, &story.rows, &story.moved, is_judged).len()
    };
    assert_eq!(late(&story, |client| client < 1_000), 1);
    assert_eq!(late(&story, |client| client >= 1_000), 0);
    story.clock_is_set(3 * SECOND, -5 * HOUR);
    assert_eq!(late(&story, |_| true), 0);
    story.moved.moves[0] = Move {
        from: 90 * SECOND,
        to: 90 * SECOND,
        off: HOUR,
    };
    story.is_over("a", "expired", stamp(30 * SECOND));
    assert_eq!(late(&story, |_| true), 1);
}

/// P9: an answered resize is in the rows.
#[test]
fn a_semaphore_has_the_capacity_that_it_was_last_given() {
    let mut story = story();
    story.says(SECOND, define(3), Answer::Done);
    assert_eq!(story.found(), [Promise::P9]);
    story.rows.semaphores[0].capacity = 3;
    assert_eq!(story.found(), []);
}

/// P9: any of several resizes at once may be the last, and an unanswered resize may take effect at any time.
#[test]
fn a_capacity_is_not_judged_where_it_may_be_anothers() {
    let mut at_once = story();
    at_once.says(SECOND, define(3), Answer::Done);
    at_once.says(SECOND + TAKES / 2, define(4), Answer::Done);
    for capacity in [3, 4] {
        at_once.rows.semaphores[0].capacity = capacity;
        assert_eq!(at_once.found(), []);
    }
    let failed = Answer::Refused(Refused::Other("the disk is full".into()));
    for answer in [Answer::Unknown, failed] {
        let mut lost = story();
        lost.says(SECOND, define(7), answer);
        lost.says(2 * SECOND, define(3), Answer::Done);
        lost.rows.semaphores[0].capacity = 7;
        assert_eq!(lost.found(), []);
    }
    let mut deleted = story();
    let semaphore = "s".into();
    deleted.says(SECOND, Call::Delete { semaphore }, Answer::Done);
    deleted.rows.semaphores[0].capacity = 7;
    deleted.rows.semaphores[0].is_deleted = true;
    assert_eq!(deleted.found(), []);
}

/// P9: a deleted semaphore is deleted in the rows, and one that was defined after that exists.
#[test]
fn a_deletion_that_was_answered_is_in_the_rows() {
    let delete = || Call::Delete {
        semaphore: "s".into(),
    };
    let mut deleted = story();
    deleted.says(SECOND, delete(), Answer::Done);
    assert_eq!(deleted.found(), [Promise::P9]);
    let mut back = deleted;
    back.says(2 * SECOND, define(1), Answer::Done);
    assert_eq!(back.found(), []);
    back.rows.semaphores[0].is_deleted = true;
    assert_eq!(back.found(), [Promise::P9]);
    // A repeated deletion finds no semaphore, and the first call may have deleted it.
    back.says(
        3 * SECOND,
        delete(),
        Answer::Refused(Refused::UnknownSemaphore),
    );
    assert_eq!(
        back.found(),
        [Promise::P9],
        "a deletion finds nothing while the semaphore exists"
    );
    back.history.last_mut().unwrap().begun = 2 * SECOND;
    assert_eq!(back.found(), []);
}

/// P9: a call may find a semaphore unknown, or too small, only if it can have been.
#[test]
fn an_existing_and_large_enough_semaphore_must_not_be_denied() {
    let asks = |story: &mut Story, begun, count, told| {
        let permits = vec![("s".into(), count)];
        let ask = Asked {
            permits,
            ..ask("a")
        };
        story.says(begun, Call::Acquire(ask), Answer::Refused(told));
    };
    for told in [Refused::UnknownSemaphore, Refused::TooMuch] {
        let mut there = story();
        asks(&mut there, SECOND, 1, told.clone());
        assert_eq!(there.found(), [Promise::P9]);
        // An unanswered change may have been done at any time.
        for call in [
            define(0),
            Call::Delete {
                semaphore: "s".into(),
            },
        ] {
            let mut lost = there.clone();
            lost.rows.semaphores.clear();
            let is_deleted = matches!(call, Call::Delete { .. });
            lost.says(SECOND / 2, call, Answer::Unknown);
            let expected = match (&told, is_deleted) {
                (Refused::UnknownSemaphore, true) => vec![],
                _ => vec![Promise::P9],
            };
            assert_eq!(lost.found(), expected);
        }
    }
    let mut small = story();
    asks(&mut small, SECOND, 2, Refused::TooMuch);
    assert_eq!(small.found(), []);
    small.says(SECOND / 2, define(2), Answer::Done);
    small.rows.semaphores[0].capacity = 2;
    assert_eq!(small.found(), [Promise::P9]);
}

/// P9: a closed semaphore is full, and nothing is too much for it.
#[test]
fn a_closed_semaphore_is_exhausted_and_never_too_small() {
    for (told, expected) in [
        (Refused::TooMuch, vec![Promise::P9]),
        (Refused::Exhausted(vec!["s".into()]), vec![]),
    ] {
        let mut closed = story();
        closed.says(SECOND / 2, define(0), Answer::Done);
        closed.rows.semaphores[0].capacity = 0;
        let ask = Asked {
            permits: vec![("s".into(), 3)],
            ..ask("a")
        };
        closed.says(SECOND, Call::Acquire(ask), Answer::Refused(told));
        assert_eq!(closed.found(), expected);
    }
}

/// P5: a row has the owner that asked for it.
#[test]
fn a_row_has_the_owner_of_its_ask() {
    let mut story = story();
    story.holds(SECOND, &anns("a"));
    assert_eq!(story.found(), []);
    story.rows.permits[0].owner = Some("bob".into());
    assert_eq!(story.found(), [Promise::P5]);
}

/// P9, like P4, P8 and P10: a clock that is set later does not exempt requests that were over before.
#[test]
fn a_clock_that_is_set_later_exempts_nobody() {
    let mut story = story();
    story.holds(SECOND, &ask_for("a", SECOND));
    story.releases(SECOND + SECOND / 2, "a");
    // No answer says that the request is over.
    story.history.last_mut().unwrap().answer = Answer::Unknown;
    story.clock_is_set(90 * SECOND, 5 * HOUR);
    assert_eq!(story.found(), []);
    // The request was renewed, and the row does not show it.
    let renew = Call::Renew {
        id: "a".into(),
        ttl_us: None,
    };
    story.says(SECOND + SECOND / 4, renew, Answer::Renewed);
    assert_eq!(story.found(), [Promise::P9]);
}

/// P4: a repeated call may have been done at its first, unanswered try.
#[test]
fn a_renewal_that_is_answered_by_the_end_may_have_been_done_before_that() {
    let found = |answer, forced_at| {
        let mut story = story();
        story.holds(SECOND, &ask_for("a", SECOND));
        let renew = Call::Renew {
            id: "a".into(),
            ttl_us: None,
        };
        story.says(SECOND + SECOND / 2, renew, answer).ended = 3 * SECOND;
        let ended = Answer::Ended {
            now: true,
            reason: "forced".into(),
        };
        story.says(forced_at, Call::Force { id: "a".into() }, ended);
        story.is_over("a", "forced", stamp(forced_at + TAKES / 2));
        story.rows.permits[0].expires_at = Some(stamp(forced_at + SECOND / 2));
        story.found()
    };
    let over = || Answer::Refused(Refused::Ended("forced".into()));
    assert_eq!(found(over(), 5 * SECOND / 2), []);
    assert_eq!(
        found(Answer::Refused(Refused::Other(String::new())), 5 * SECOND),
        []
    );
    assert_eq!(found(over(), 5 * SECOND), [Promise::P4]);
    let unknown = Answer::Refused(Refused::UnknownRequest);
    assert_eq!(found(unknown, 5 * SECOND / 2), [Promise::P4, Promise::P9]);
}

/// P10: a waiter that has left may still be in the line for a moment, and for longer while its process cannot work.
#[test]
fn a_refusal_after_a_waiter_has_left_is_not_judged() {
    let found = |waits, at, away: Vec<(u64, u64)>| {
        let mut story = story();
        let waiter = Asked { waits, ..ask("a") };
        story.says(SECOND, Call::Acquire(waiter), no_room());
        story.says(at, Call::Acquire(ask("b")), no_room());
        if !waits {
            story.history.remove(1);
        }
        story.found_under(Circumstances {
            away,
            ..Circumstances::default()
        })
    };
    assert_eq!(found(true, 2 * SECOND, vec![]), []);
    assert_eq!(found(true, 3 * SECOND, vec![]), [Promise::P10]);
    assert_eq!(found(true, 3 * SECOND, vec![(2 * SECOND, 4 * SECOND)]), []);
    let later = vec![(4 * SECOND, 5 * SECOND)];
    assert_eq!(found(true, 3 * SECOND, later), [Promise::P10]);
    assert_eq!(found(false, 2 * SECOND, vec![]), [Promise::P10]);
    let away = vec![(2 * SECOND, 4 * SECOND)];
    assert_eq!(found(false, 3 * SECOND, away), [Promise::P10]);
}

/// P2: the verdict names what is live.
#[test]
fn a_counter_that_drifted_is_shown_with_its_permits() {
    let mut story = story();
    story.holds(SECOND, &ask("a"));
    story.rows.semaphores[0].in_use = 0;
    let found = check(&story.history, Some(&story.rows));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rows, story.rows.permits);
    // Without a live permit, the verdict names the permit that was released last.
    story.rows.semaphores[0].in_use = 1;
    story.releases(2 * SECOND, "a");
    story.rows.semaphores[0].in_use = 1;
    let found = check(&story.history, Some(&story.rows));
    assert_eq!(found[0].rows, story.rows.permits);
}

/// P3: a server releases a grant whose caller has gone away. The caller asks again, and learns of the end.
#[test]
fn a_grant_that_was_given_up_is_released_unless_its_caller_was_answered() {
    let ended = || Answer::Refused(Refused::Ended("released".to_owned()));
    let told = |answer: Answer, before: Option<Answer>| {
        let mut story = story();
        story.holds(SECOND, &ask("a"));
        story.is_over("a", "released", stamp(2 * SECOND));
        story.history.clear();
        if let Some(before) = before {
            story.says(SECOND, Call::Acquire(ask("a")), before);
        }
        let asked = story.says(SECOND, Call::Acquire(ask("a")), answer);
        asked.ended = 3 * SECOND;
        story.found()
    };
    assert_eq!(told(ended(), None), []);
    assert_eq!(told(Answer::Unknown, None), []);
    assert_eq!(told(ended(), Some(granted(1))), [Promise::P3]);
}
