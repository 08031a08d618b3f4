//! Which blocked commands wait in the database's own lock queue, and which effects the state returns.

use lockhouse_core::{Ask, Count, ExternalId, Refusal};

use super::super::blocked::AwaitedLock;
use super::super::grant_cache::GrantCache;
use super::*;

/// A state in which `a` is locked, and releases that touch each of these semaphores are blocked by it. They come
/// with the answers that their callers wait for.
fn blocked(touches: &[&str]) -> (EngineState, Vec<oneshot::Receiver<Answer>>) {
    blocked_until(Instant::now() + Duration::from_secs(9), touches)
}

/// The same, of calls with this deadline.
fn blocked_until(
    deadline: Instant,
    touches: &[&str],
) -> (EngineState, Vec<oneshot::Receiver<Answer>>) {
    let mut state = empty(100);
    let mut answers = Vec::new();
    let locked = Footprint {
        semaphores: [name("a")].into(),
        ..Footprint::default()
    };
    for (number, names) in touches.iter().enumerate() {
        let (answer, answered) = oneshot::channel();
        let caller = Caller {
            ticket: None,
            answer,
            deadline,
            span: Span::none(),
        };
        let id = ExternalId::parse(format!("job-{number}")).unwrap();
        let names = names.chars().map(|c| name(&c.to_string()));
        let reply_to = ReplyTo::Caller(caller);
        let mut queued = Queued::new(Command::release(id), names.collect(), Vec::new(), reply_to);
        queued.sequence = state.queue.sequence();
        state.block_on(queued, &locked);
        answers.push(answered);
    }
    (state, answers)
}

/// An empty state, for transactions of at most `batch` commands and a store with four connections.
fn empty(batch: usize) -> EngineState {
    EngineState::new(batch, 4, ProcessId::new(1), Instant::now())
}

fn name(name: &str) -> SemaphoreName {
    SemaphoreName::parse(name).unwrap()
}

/// A release of a request that is over needs no semaphore, so alone it would not show whether `a` is locked.
#[test]
fn a_wait_for_a_semaphore_always_looks_at_it() {
    for touches in [&["a", "a"][..], &[]] {
        let (mut state, _answers) = blocked(touches);
        let lane = state.take_for(name("a"));
        assert_eq!(lane.batch.commands.len(), touches.len() + 1);
        assert!(lane.batch.footprint.semaphores.contains(&name("a")));
    }
}

/// P11.
#[test]
fn no_command_overtakes_one_for_several_semaphores_in_the_lock_queue() {
    let (mut state, _answers) = blocked(&["a", "ab", "a"]);
    let lane = state.take_for(name("a"));
    let released = lane
        .batch
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::End { external_id, .. } => Some(external_id.as_str()),
            _ => None,
        });
    assert_eq!(released.collect::<Vec<_>>(), ["job-0"]);
}

/// A call that is in the lock queue when its deadline comes gets no answer from there. One that stays blocked learns that its row
/// is locked.
#[test]
fn a_call_whose_deadline_is_near_does_not_enter_the_lock_queue() {
    let deadline = Instant::now() + Duration::from_millis(1_100);
    let (mut state, _answers) = blocked_until(deadline, &["a"]);
    let lane = state.take_for(name("a"));
    let ends = |command: &&Command| matches!(command, Command::End { .. });
    assert_eq!(lane.batch.commands.iter().filter(ends).count(), 0);
    state.at(deadline - MARGIN - Duration::from_millis(1));
    assert!(state.give_up().is_empty());
    state.at(deadline - MARGIN);
    assert_eq!(state.give_up().len(), 1);
}

/// The poller that is to end is forgotten under the mutex. So a row that is locked right after it gets a new poller.
#[test]
fn a_row_locked_as_the_lock_poller_ends_starts_another() {
    let (mut state, _answers) = blocked(&["a"]);
    state.has_lock_poller = true;
    assert!(!state.ends_lock_poller());
    assert!(state.has_lock_poller);
    let mut state = empty(1);
    state.has_lock_poller = true;
    assert!(state.ends_lock_poller());
    assert!(!state.has_lock_poller);
}

/// The names of the effects that `state` returns.
fn effects(state: &mut EngineState) -> Vec<&'static str> {
    let effects = state.effects();
    let names = effects.iter().map(|effect| match effect {
        Effect::RunLane(_) => "run a lane",
        Effect::Poll => "poll",
        Effect::WakePoller => "wake the poller",
        Effect::PollLockedRows => "poll locked rows",
        Effect::WaitInLockQueue(_) => "wait in the lock queue",
        Effect::Publish(_) => "publish",
    });
    names.collect()
}

#[test]
fn a_task_is_started_once_until_it_ends_or_is_dropped() {
    let (mut state, _answers) = blocked(&["a"]);
    assert_eq!(effects(&mut state), ["poll locked rows"]);
    assert_eq!(effects(&mut state), [""; 0]);
    state.lock_poller_was_dropped();
    assert_eq!(effects(&mut state), ["poll locked rows"]);

    state.at(state.now + Duration::from_secs(1));
    state.blocked.choose_waits();
    let wait = match &state.effects()[..] {
        [Effect::WaitInLockQueue(wait)] => wait.clone(),
        other => panic!("not one wait: {other:?}"),
    };
    assert_eq!(wait, AwaitedLock::Semaphore(name("a")));
    state.at(state.now + Duration::from_secs(1));
    state.blocked.choose_waits();
    assert_eq!(effects(&mut state), [""; 0], "it is under way");
    state.blocked.end_wait(&wait);
    state.blocked.choose_waits();
    assert_eq!(effects(&mut state), ["wait in the lock queue"]);
}

#[test]
fn a_waiter_starts_the_poller_and_the_next_one_wakes_it() {
    let mut state = empty(100);
    let mut answers = Vec::new();
    let mut park = |state: &mut EngineState, id: &str| {
        let ask = Ask::new(ExternalId::parse(id).unwrap(), [(name("a"), Count::ONE)]).unwrap();
        let ticket = state.waiting.ticket(&ask, Wait::Forever);
        let (answer, answered) = oneshot::channel();
        answers.push(answered);
        let place = ticket.place;
        let refusal = Refusal::Exhausted(vec![name("a")]);
        assert!(state.waiting.park(ticket, ask, &refusal, answer));
        place
    };
    let first = park(&mut state, "job-1");
    assert_eq!(effects(&mut state), ["poll"]);
    let grants = GrantCache::new();
    assert!(state.plan(&grants, state.now).is_some());
    assert_eq!(effects(&mut state), [""; 0]);
    let second = park(&mut state, "job-2");
    assert_eq!(effects(&mut state), ["wake the poller"]);
    assert_eq!(effects(&mut state), [""; 0]);
    for place in [first, second] {
        assert!(state.leave(place).is_some());
    }
    assert!(state.plan(&grants, state.now).is_none(), "nobody waits");
    park(&mut state, "job-3");
    assert_eq!(effects(&mut state), ["poll"]);
}
