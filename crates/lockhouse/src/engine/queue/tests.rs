//! Which commands share a lane, and which wait for others.

use lockhouse_core::Command;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::reply_to::{Caller, ReplyTo};
use super::*;

const BATCH: usize = 512;

fn queue(touches: &[&str]) -> Queue {
    let mut queue = Queue::new(BATCH);
    push(&mut queue, touches);
    queue
}

fn push(queue: &mut Queue, touches: &[&str]) {
    for names in touches {
        queue.push(queued(names));
    }
}

fn queued(names: &str) -> Queued {
    let touches = names
        .chars()
        .map(|c| SemaphoreName::parse(c.to_string()).unwrap());
    let (answer, _) = oneshot::channel();
    let command = Command::Delete {
        name: SemaphoreName::parse("x").unwrap(),
    };
    let caller = Caller {
        ticket: None,
        answer,
        deadline: Instant::now(),
        span: tracing::Span::none(),
    };
    Queued::new(
        command,
        touches.collect(),
        Vec::new(),
        ReplyTo::Caller(caller),
    )
}

fn take(queue: &mut Queue) -> (Vec<String>, HashSet<SemaphoreName>) {
    let taken = queue.take(|_| true).unwrap_or_default();
    let names = taken.commands.iter();
    let names = names.map(|q| q.touches.iter().map(|name| name.as_str()).collect());
    (names.collect(), taken.semaphores)
}

#[test]
fn commands_that_share_a_semaphore_share_a_batch_and_others_run_in_parallel() {
    let mut queue = queue(&["a", "b", "a", "ac", "c", "b"]);
    assert_eq!(take(&mut queue).0, ["a", "a", "ac", "c"]);
    assert_eq!(take(&mut queue).0, ["b", "b"]);
    assert!(queue.take(|_| true).is_none());
}

#[test]
fn a_command_waiting_for_a_busy_semaphore_is_not_overtaken() {
    let mut queue = queue(&["a"]);
    let (first, a) = take(&mut queue);
    assert_eq!(first, ["a"]);
    push(&mut queue, &["ab", "b", "c"]);
    assert_eq!(
        take(&mut queue).0,
        ["c"],
        "b waits behind ab, which waits for a"
    );
    assert!(queue.take(|_| true).is_none());
    queue.end(LaneKind::Semaphores, &a);
    assert_eq!(take(&mut queue).0, ["ab", "b"]);
}

#[test]
fn commands_do_not_overtake_across_lanes() {
    let mut queue = queue(&["a", "bc", "ab", "c", "a"]);
    assert_eq!(
        take(&mut queue).0,
        ["a"],
        "ab waits behind bc, and the last a behind ab"
    );
    let (second, bc) = take(&mut queue);
    assert_eq!(second, ["bc", "c"]);
    queue.end(LaneKind::Semaphores, &bc);
    assert!(queue.take(|_| true).is_none(), "a is busy still");
}

#[test]
fn the_last_lane_takes_whatever_there_is() {
    let mut queue = queue(&["a", "b", "c", "b"]);
    queue.lanes = LANES - 1;
    assert_eq!(take(&mut queue).0, ["a", "b", "b", "c"]);
    push(&mut queue, &["d"]);
    assert!(queue.take(|_| true).is_none());
}

#[test]
fn commands_that_touch_no_semaphore_are_always_ready() {
    let mut queue = queue(&["", "a"]);
    assert_eq!(take(&mut queue).0, [""]);
    assert_eq!(take(&mut queue).0, ["a"]);
}

#[test]
fn a_command_that_is_not_admitted_is_passed_over() {
    let mut queue = queue(&["a", "ab", "a"]);
    let taken = queue.take(|queued| queued.touches.len() < 2).unwrap();
    assert_eq!(taken.commands.len(), 2);
    assert_eq!(taken.semaphores.len(), 1);
    assert!(queue.waiting.is_empty() && queue.lines.is_empty());
}

#[test]
fn commands_behind_a_departed_caller_are_taken_though_the_batch_is_full() {
    let mut queue = queue(&vec!["h"; BATCH - 1]);
    push(&mut queue, &["hab", "h", "a", "b"]);
    let first = queue.take(|queued| queued.touches.len() < 3).unwrap();
    assert_eq!(first.commands.len(), BATCH);
    let both = [take(&mut queue).0, take(&mut queue).0].concat();
    assert_eq!(both, ["a", "b"]);
}

#[test]
fn a_batch_is_limited_in_size() {
    let mut queue = queue(&vec!["a"; BATCH + 3]);
    let (first, a) = take(&mut queue);
    assert_eq!(first.len(), BATCH);
    assert!(queue.take(|_| true).is_none());
    queue.end(LaneKind::Semaphores, &a);
    assert_eq!(take(&mut queue).0.len(), 3);
}
