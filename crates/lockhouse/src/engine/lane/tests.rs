//! What a lane asks the store for, by what the store answers.

use lockhouse_core::{Ask, ExternalId, Refusal, Request, State, Timestamp, Turn};

use super::*;

fn name(name: &str) -> SemaphoreName {
    SemaphoreName::parse(name).unwrap()
}

fn id(id: &str) -> ExternalId {
    ExternalId::parse(id).unwrap()
}

/// A lane with an ask for one permit of each of the semaphores, under its name.
fn lane(names: &[&str]) -> Lane {
    lane_of(names.iter().map(|on| acquire(on, on, false)).collect())
}

fn acquire(external_id: &str, on: &str, waits: bool) -> Queued {
    let ask = Ask::new(id(external_id), [(name(on), Count::ONE)]).unwrap();
    let turn = Turn {
        waits,
        ..Turn::default()
    };
    let command = Command::Acquire { ask, turn };
    Queued::new(command, vec![name(on)], Vec::new(), ReplyTo::Engine)
}

fn lane_of(commands: Vec<Queued>) -> Lane {
    let touches = commands.iter().flat_map(|queued| &queued.touches);
    let taken = Taken {
        kind: LaneKind::Semaphores,
        semaphores: touches.cloned().collect(),
        commands,
    };
    let now = Instant::now();
    Lane::new(taken, false, now, now + Duration::from_secs(9))
}

/// The ids of the batch that the store is to decide next.
fn asked(lane: &Lane) -> Vec<String> {
    let Step::Transact(batch, _) = lane.step() else {
        panic!("{:?}", lane.step());
    };
    let ids = batch.commands.iter().filter_map(Command::external_id);
    ids.map(|id| id.as_str().to_owned()).collect()
}

fn granted(external_id: &str, now: bool, lasts_s: Option<u64>) -> Outcome {
    let request = Request {
        external_id: id(external_id),
        owner: None,
        state: State::Acquired,
        permits: Vec::new(),
        ttl: None,
        expires_at: None,
        created_at: Timestamp::UNIX_EPOCH,
        ended_by: None,
    };
    Ok(Reply::Granted {
        request,
        now,
        lasts: lasts_s.map(Duration::from_secs),
    })
}

fn exhausted(on: &str) -> Outcome {
    Err(Refusal::Exhausted(vec![name(on)]))
}

fn error(kind: Kind) -> StoreError {
    StoreError::new(kind, "a test's")
}

fn locked(ids: &[&str]) -> Footprint {
    Footprint {
        requests: ids.iter().map(|text| id(text)).collect(),
        ..Footprint::default()
    }
}

/// The answers, each with its id.
fn answers(lane: &mut Lane) -> Vec<(String, Answered)> {
    assert!(matches!(lane.step(), Step::Answer), "{:?}", lane.step());
    let decided = lane.answers().into_iter();
    let ids = decided.map(|done| {
        let id = done.command.external_id().unwrap().as_str().to_owned();
        (id, done.answer)
    });
    ids.collect()
}

#[test]
fn a_batch_is_decided_in_one_transaction() {
    let mut lane = lane(&["a", "b"]);
    assert_eq!(asked(&lane), ["a", "b"]);
    let outcomes = vec![granted("a", true, None), exhausted("b")];
    let taken_out = lane.transacted(Ok(outcomes.clone()), Instant::now());
    assert!(taken_out.commands.is_empty());
    let answers = answers(&mut lane).into_iter();
    let answers: Vec<_> = answers.map(|(_, answer)| answer.unwrap()).collect();
    assert_eq!(answers, outcomes);
    assert!(!lane.is_under_way());
}

/// P13.
#[test]
fn commands_that_need_a_locked_row_are_taken_out_and_the_rest_goes_on() {
    let mut lane = lane(&["a", "b"]);
    let error = error(Kind::Locked).while_locked(locked(&["b"]));
    let taken_out = lane.transacted(Err(error), Instant::now());
    let ids = taken_out.commands.iter();
    let ids: Vec<_> = ids
        .map(|(queued, _)| queued.command.external_id())
        .collect();
    assert_eq!(ids, [Some(&id("b"))]);
    assert_eq!(taken_out.freed, HashSet::from([name("b")]));
    assert_eq!(asked(&lane), ["a"]);
    assert_eq!(lane.semaphores, HashSet::from([name("a")]));
}

#[test]
fn a_lane_all_of_whose_commands_are_taken_out_has_nothing_to_answer() {
    let mut lane = lane(&["a"]);
    let error = error(Kind::Locked).while_locked(locked(&["a"]));
    assert_eq!(
        lane.transacted(Err(error), Instant::now()).commands.len(),
        1
    );
    assert!(answers(&mut lane).is_empty());
}

#[test]
fn a_lock_wait_without_a_locked_row_is_tried_again_and_then_one_by_one() {
    let mut lane = lane(&["a", "b"]);
    lane.transacted(Err(error(Kind::Locked)), Instant::now());
    assert!(matches!(lane.step(), Step::Pause(_)));
    lane.paused();
    assert_eq!(asked(&lane), ["a", "b"]);
    lane.transacted(Err(error(Kind::Locked)), Instant::now());
    assert_eq!(asked(&lane), ["a"]);
}

#[test]
fn a_batch_that_is_turned_down_is_tried_one_by_one_and_only_the_one_to_blame_fails() {
    let mut lane = lane(&["a", "b"]);
    lane.transacted(Err(error(Kind::Rejected)), Instant::now());
    assert_eq!(asked(&lane), ["a"]);
    lane.transacted(Err(error(Kind::Rejected)), Instant::now());
    assert_eq!(asked(&lane), ["b"]);
    lane.transacted(Ok(vec![granted("b", true, None)]), Instant::now());
    let answers = answers(&mut lane);
    assert!(answers[0].1.is_err() && answers[1].1.is_ok());
}

#[test]
fn a_command_that_meets_a_locked_row_alone_is_taken_out() {
    let mut lane = lane(&["a", "b"]);
    lane.transacted(Err(error(Kind::Rejected)), Instant::now());
    let met = error(Kind::Locked).while_locked(locked(&["x"]));
    lane.transacted(Err(met), Instant::now());
    let taken_out = lane.transacted(Ok(vec![exhausted("b")]), Instant::now());
    assert_eq!(taken_out.commands.len(), 1);
    assert_eq!(taken_out.freed, HashSet::from([name("a")]));
    assert_eq!(answers(&mut lane).len(), 1);
}

/// P11, as in one batch.
#[test]
fn one_by_one_no_ask_is_decided_ahead_of_a_refused_one_that_waits() {
    let mut first = acquire("first", "a", true);
    let mut second = acquire("second", "a", true);
    for (queued, number) in [(&mut first, 1), (&mut second, 2)] {
        if let Command::Acquire { turn, .. } = &mut queued.command {
            let priority = lockhouse_core::Priority::default();
            turn.place = lockhouse_core::Place::new(Duration::ZERO, priority, number);
        }
    }
    let mut lane = lane_of(vec![first, second]);
    lane.transacted(Err(error(Kind::Rejected)), Instant::now());
    lane.transacted(Ok(vec![exhausted("a")]), Instant::now());
    let Step::Transact(batch, _) = lane.step() else {
        panic!("{:?}", lane.step());
    };
    let Command::Acquire { turn, .. } = &batch.commands[0] else {
        panic!("{batch:?}");
    };
    assert!(turn.behind.contains(&name("a")));
}

/// P8 and P9.
#[test]
fn a_grant_that_may_have_expired_is_asked_again_and_is_still_the_first_ones() {
    let mut lane = lane(&["a", "b"]);
    let late = lane.begun + Duration::from_secs(3);
    let outcomes = vec![granted("a", true, Some(2)), granted("b", true, Some(60))];
    lane.transacted(Ok(outcomes), late);
    assert_eq!(asked(&lane), ["a"]);
    lane.transacted(Ok(vec![granted("a", false, Some(9))]), late);
    let answers = answers(&mut lane);
    assert_eq!(answers[0].1.as_ref().unwrap(), &granted("a", true, Some(9)));
}

#[test]
fn a_task_that_ends_too_early_leaves_every_outcome_unknown() {
    let mut lane = lane(&["a", "b"]);
    assert!(lane.is_under_way());
    let decided = lane.cut_off();
    assert_eq!(decided.len(), 2);
    for done in decided {
        assert_eq!(done.answer.unwrap_err().kind(), Kind::Unknown);
    }
    assert!(!lane.is_under_way());
}

/// P13: nobody else would free it.
#[test]
fn a_semaphore_that_no_command_touches_any_more_is_freed_though_none_is_taken_out() {
    let stand = Command::look(name("a"));
    let taken = Taken {
        kind: LaneKind::Semaphores,
        semaphores: [name("a")].into(),
        commands: vec![Queued::new(stand, Vec::new(), Vec::new(), ReplyTo::Engine)],
    };
    let now = Instant::now();
    let mut lane = Lane::new(taken, false, now, now + Duration::from_secs(9));
    let transacted = |lane: &mut Lane, result| lane.transacted(result, now);
    assert!(transacted(&mut lane, Err(error(Kind::Locked))).is_empty());
    lane.paused();
    assert!(transacted(&mut lane, Err(error(Kind::Locked))).is_empty());
    let alone = Err(Refusal::UnknownSemaphore(vec![name("a")]));
    let taken_out = transacted(&mut lane, Ok(vec![alone]));
    assert!(taken_out.commands.is_empty());
    assert_eq!(taken_out.freed, [name("a")].into());
    assert!(!taken_out.is_empty());
}
