//! Heartbeats that keep requests, and goodbyes that end them.

use super::*;

/// An owner with a heartbeat at 1 s, for 10 s, holds a request.
fn kept() -> Story {
    let mut story = story();
    story.beats(SECOND, 10 * SECOND, Answer::Done);
    story.holds(2 * SECOND, &anns("a"));
    story
}

/// P8.
#[test]
fn an_owner_is_silent_when_its_last_heartbeat_is_over_and_no_sooner() {
    let ends_at = |at| {
        let mut story = kept();
        story.is_over("a", "owner_dead", stamp(at));
        story.found()
    };
    assert_eq!(ends_at(11 * SECOND + TAKES / 2), []);
    assert_eq!(ends_at(9 * SECOND), [Promise::P8]);
}

/// P8: a request does not go stale while its owner is heard. After the owner's goodbye it may.
#[test]
fn a_request_whose_owner_is_heard_is_not_stale() {
    let ends_at = |at, goodbye_at| {
        let mut story = kept();
        story.says_goodbye(goodbye_at, Answer::Unknown);
        story.is_over("a", "stale", stamp(at));
        story.found_if_stale_after(Duration::from_secs(2))
    };
    assert_eq!(ends_at(12 * SECOND, 20 * SECOND), []);
    assert_eq!(ends_at(9 * SECOND, 20 * SECOND), [Promise::P8]);
    assert_eq!(ends_at(9 * SECOND, 8 * SECOND), []);
}

/// P8: the clock decides, also after it was set. An unanswered heartbeat may have shortened the session.
#[test]
fn an_owner_silent_by_a_set_clock_or_a_shorter_heartbeat_is_silent() {
    let mut set = kept();
    set.clock_is_set(4 * SECOND, 5 * HOUR);
    set.is_over("a", "owner_dead", stamp(5 * SECOND) + 5 * HOUR);
    assert_eq!(set.found(), []);

    for answer in [Answer::Done, Answer::Unknown] {
        let mut shorter = kept();
        shorter.beats(3 * SECOND, SECOND, answer);
        shorter.is_over("a", "owner_dead", stamp(5 * SECOND));
        assert_eq!(shorter.found(), []);
    }
}

/// P8: a later heartbeat surely continues the session only if it was answered.
#[test]
fn a_later_heartbeat_keeps_it() {
    let ends_at_15 = |answer| {
        let mut story = kept();
        story.beats(9 * SECOND, 10 * SECOND, answer);
        story.is_over("a", "owner_dead", stamp(15 * SECOND));
        story.found()
    };
    assert_eq!(ends_at_15(Answer::Done), [Promise::P8]);
    assert_eq!(ends_at_15(Answer::Unknown), []);
}

/// P3.
#[test]
fn an_owner_without_a_session_does_not_fall_silent() {
    let mut story = story();
    story.holds(2 * SECOND, &anns("a"));
    story.is_over("a", "owner_dead", stamp(9 * SECOND));
    assert_eq!(story.found(), [Promise::P3]);
}

/// P1: the requests of a session are held as long as the session lasts.
#[test]
fn permits_of_a_session_are_not_granted_to_others() {
    let next_at = |at: u64| {
        let mut story = kept();
        // Checked without rows.
        story.says(at, Call::Acquire(ask("b")), granted(2));
        let found = check(&story.history, None);
        found.iter().map(|v| v.promise).collect::<Vec<_>>()
    };
    assert_eq!(next_at(5 * SECOND), [Promise::P1]);
    assert_eq!(next_at(12 * SECOND), []);
}

/// P1: the same with rows, for a request that silence ended.
#[test]
fn a_request_ended_by_silence_is_held_until_then() {
    let mut story = kept();
    story.is_over("a", "owner_dead", stamp(12 * SECOND));
    story.holds(13 * SECOND, &ask("b"));
    assert_eq!(story.found(), []);

    // The row of "a" has an end that is too early.
    let mut story = kept();
    story.is_over("a", "owner_dead", stamp(4 * SECOND));
    story.holds(5 * SECOND, &ask("b"));
    assert_eq!(story.found(), [Promise::P1, Promise::P8]);
}

/// P5: an owner that asks again for a request of its session is told that it holds it.
#[test]
fn a_repeated_ask_of_a_session_gets_the_same_grant() {
    let again_at = |at: u64| {
        let mut story = kept();
        // Another caller may hold the permit once the session has lapsed.
        story.says(at - SECOND / 2, Call::Acquire(ask("b")), granted(2));
        story.says(at, Call::Acquire(anns("a")), no_room());
        let found = check(&story.history, None);
        found.iter().any(|v| v.promise == Promise::P5)
    };
    assert!(again_at(5 * SECOND));
    assert!(!again_at(12 * SECOND));
}

/// P3.
#[test]
fn a_goodbye_that_was_answered_has_ended_what_was_held() {
    let mut story = kept();
    story.says_goodbye(3 * SECOND, Answer::Done);
    assert_eq!(story.found(), [Promise::P3]);
    story.is_over("a", "released", stamp(3 * SECOND + TAKES / 2));
    assert_eq!(story.found(), []);
    // The request ended long after the goodbye was answered.
    story.rows.permits[0].released_at = Some(stamp(8 * SECOND));
    assert_eq!(story.found(), [Promise::P3]);
}

/// P3: the checker does not judge requests granted during a goodbye, nor a goodbye without an answer.
#[test]
fn a_goodbye_has_not_surely_ended_what_came_with_it() {
    let mut lost = kept();
    lost.says_goodbye(3 * SECOND, Answer::Unknown);
    assert_eq!(lost.found(), []);

    let mut beside = kept();
    beside.says_goodbye(SECOND + TAKES, Answer::Done).ended = 3 * SECOND;
    assert_eq!(beside.found(), []);
}

/// P3: the answer to a grant was lost, and its row tells when it was granted.
#[test]
fn a_goodbye_has_ended_unanswered_grants() {
    let mut story = kept();
    // Another grant shows how far the clocks are apart.
    story.rows.semaphores[0].capacity = 2;
    story.history[0].call = define(2);
    story.holds(3 * SECOND, &ask("b"));
    story.history[2].answer = Answer::Unknown;
    story.says_goodbye(4 * SECOND, Answer::Done);
    assert_eq!(story.found(), [Promise::P3]);
}
