//! The next step of a lane after an error.

use lockhouse_core::ExternalId;
use tokio::sync::oneshot;

use super::super::reply_to::Caller;
use super::*;

/// A lane with a release of each of these requests, whose callers wait.
fn releases(ids: &[&str]) -> Lane {
    let queued = |id: &&str| {
        let command = Command::release(ExternalId::parse(*id).unwrap());
        let caller = Caller {
            ticket: None,
            answer: oneshot::channel().0,
            deadline: Instant::now(),
            span: Span::none(),
        };
        Queued::new(command, Vec::new(), Vec::new(), ReplyTo::Caller(caller))
    };
    let taken = Taken {
        commands: ids.iter().map(queued).collect(),
        ..Taken::default()
    };
    Lane::new(taken, Instant::now())
}

#[test]
fn a_named_lock_blocks_its_commands_and_an_unnamed_one_is_met_twice() {
    let mut lane = releases(&["x", "y"]);
    let named = Footprint {
        semaphores: [SemaphoreName::parse("a").unwrap()].into(),
        ..Footprint::default()
    };
    let named = StoreError::new(Kind::Locked, "a lock").while_locked(named);
    let unnamed = StoreError::new(Kind::Locked, "a lock");
    let next = [&named, &unnamed, &named, &unnamed].map(|error| lane.after(error, true));
    assert_eq!(
        next,
        [Next::Block, Next::StepAside, Next::Block, Next::OneByOne]
    );
    assert_eq!(lane.after(&named, false), Next::Answer, "it is too late");
}

#[test]
fn only_a_batch_of_several_commands_is_tried_one_by_one_after_it_was_rejected() {
    let rejected = StoreError::new(Kind::Rejected, "a row");
    let next = [&["x"][..], &["x", "y"]].map(|ids| releases(ids).after(&rejected, true));
    assert_eq!(next, [Next::Answer, Next::OneByOne]);
    let lost = StoreError::new(Kind::Unknown, "an answer");
    assert_eq!(releases(&["x", "y"]).after(&lost, true), Next::Answer);
}
