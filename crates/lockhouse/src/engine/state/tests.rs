//! Which blocked commands wait in the database's own lock queue.

use lockhouse_core::ExternalId;

use super::*;

/// A state in which `a` is locked, and releases that touch each of these semaphores are blocked by it. They come
/// with the answers that their callers wait for.
fn blocked(touches: &[&str]) -> (State, Vec<oneshot::Receiver<Answer>>) {
    blocked_until(Instant::now() + Duration::from_secs(9), touches)
}

/// The same, of calls with this deadline.
fn blocked_until(deadline: Instant, touches: &[&str]) -> (State, Vec<oneshot::Receiver<Answer>>) {
    let mut state = State::new(100);
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
    assert!(
        state
            .give_up(deadline - MARGIN - Duration::from_millis(1))
            .is_empty()
    );
    assert_eq!(state.give_up(deadline - MARGIN).len(), 1);
}

/// A row that is locked just then has a poller: another may begin as soon as this one has seen that there is none.
#[test]
fn a_lock_poller_that_is_to_end_counts_no_more() {
    let (mut state, _answers) = blocked(&["a"]);
    state.has_lock_poller = true;
    assert!(!state.ends_lock_poller());
    assert!(state.has_lock_poller);
    let mut state = State::new(1);
    state.has_lock_poller = true;
    assert!(state.ends_lock_poller());
    assert!(!state.has_lock_poller);
}
