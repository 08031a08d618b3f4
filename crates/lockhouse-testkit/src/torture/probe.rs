//! Calls that show whether a process works: a heartbeat, and an ask for one permit of every semaphore, which is released at
//! once. The asks do not wait, and a refusal for lack of room counts as an answer. If something keeps a semaphore locked, the
//! calls on it get no answer.

use std::time::Duration;

use tokio::time::sleep;

use super::plan::LONGEST_TTL_MS;
use super::segment::{
    DELETED, FORGOTTEN, FOUGHT, KEYED, LINED_UP, PLAIN, RESIZED, SLOTTED, Segment, TIMED,
};
use crate::history::{Answer, Asked, Call, Recorded, Refused, now_us};

/// How often a call without an answer is repeated.
pub(super) const AGAIN: u32 = 20;

const PAUSE: Duration = Duration::from_millis(100);

/// The name that stands for all heartbeats.
const SESSIONS: &str = "owners' sessions";

/// The semaphores that one probe asks for together.
pub(super) fn kinds() -> [Vec<&'static str>; 8] {
    let names = |some: &[(&'static str, u32)]| some.iter().map(|(name, _)| *name).collect();
    [
        names(&PLAIN),
        names(&[&FOUGHT[..], &[FORGOTTEN]].concat()),
        names(&[TIMED]),
        names(&[LINED_UP]),
        names(&[RESIZED]),
        names(&[DELETED]),
        names(&[SLOTTED]),
        names(&KEYED),
    ]
}

/// The parts that must be seen to work in a segment.
pub(super) fn all(segment: Segment) -> Vec<String> {
    let semaphores = kinds().into_iter().flatten();
    let semaphores = semaphores.map(|name| segment.name(name));
    semaphores.chain([SESSIONS.to_owned()]).collect()
}

/// The parts that an answer to `call` may show to work. An answer to a waiter may come without
/// another read.
pub(super) fn asked_of(call: &Call) -> Vec<String> {
    match call {
        Call::Acquire(asked) if !asked.waits => {
            asked.permits.iter().map(|(name, _)| name.clone()).collect()
        }
        Call::Heartbeat { .. } => vec![SESSIONS.to_owned()],
        _ => Vec::new(),
    }
}

/// Whether the answer shows that all of `things` were reached.
pub(super) fn shows(answer: &Answer, things: usize) -> bool {
    match answer {
        Answer::Granted { now, .. } => *now,
        Answer::Done | Answer::Refused(Refused::Exhausted(_)) => true,
        // The answer does not say which of several semaphores it is about.
        Answer::Refused(Refused::TooMuch | Refused::UnknownSemaphore) => things == 1,
        _ => false,
    }
}

/// Asks for a permit of each of `names`, until there is an answer, and releases the permits. Returns the time of the first
/// answer by the rules.
pub(super) async fn ask(
    client: &Recorded,
    segment: Segment,
    id: &str,
    names: &[&str],
) -> Option<u64> {
    // All asks for these semaphores have no TTL.
    let is_plain = names.contains(&PLAIN[0].0);
    let is_timed = names.contains(&TIMED.0);
    let permits = names.iter().map(|name| (segment.name(name), 1));
    let ask = Asked {
        id: id.to_owned(),
        permits: permits.collect(),
        owner: None,
        ttl_us: (!is_plain).then_some(LONGEST_TTL_MS * 1_000),
        waits: false,
        priority: 0,
    };
    let (mut was_lost, mut decided) = (false, None);
    for _ in 0..AGAIN {
        match client.acquire(ask.clone(), Duration::ZERO).await {
            Answer::Unknown => was_lost = true,
            Answer::Refused(Refused::Other(_)) => break,
            answer => {
                decided.get_or_insert_with(now_us);
                if matches!(answer, Answer::Granted { .. }) {
                    give_back(client, id).await;
                }
                // See `Life::hold_timed`.
                let no_room = matches!(answer, Answer::Refused(Refused::Exhausted(_)));
                if !(no_room && is_timed && was_lost) {
                    break;
                }
            }
        }
        sleep(PAUSE).await;
    }
    decided
}

async fn give_back(client: &Recorded, id: &str) {
    for _ in 0..AGAIN {
        if client.release(id).await != Answer::Unknown {
            return;
        }
        sleep(PAUSE).await;
    }
}
