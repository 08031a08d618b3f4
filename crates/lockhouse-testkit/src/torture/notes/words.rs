//! Writes and reads calls and answers as the words of a note.

use std::fmt::Write as _;
use std::str::SplitWhitespace;

use crate::history::{Answer, Asked, Call, Held, NEVER, Operation, Refused};

pub(super) fn begun(words: &mut SplitWhitespace<'_>) -> Option<(usize, Operation)> {
    let number = words.next()?.parse().ok()?;
    let client = words.next()?.parse().ok()?;
    let begun = words.next()?.parse().ok()?;
    let operation = Operation {
        client,
        call: call(words)?,
        begun,
        ended: NEVER,
        answer: Answer::Unknown,
    };
    Some((number, operation))
}

pub(super) fn ended(words: &mut SplitWhitespace<'_>) -> Option<(usize, u64, Answer)> {
    let number = words.next()?.parse().ok()?;
    let ended = words.next()?.parse().ok()?;
    Some((number, ended, answer(words)?))
}

pub(super) fn of_call(call: &Call) -> String {
    match call {
        Call::Acquire(asked) => {
            let owner = asked.owner.as_deref().unwrap_or("-");
            let (ttl, waits) = (maybe(asked.ttl_us), u8::from(asked.waits));
            let mut line = format!("A {} {ttl} {owner} {waits}", asked.id);
            if asked.priority != 0 {
                let _ = write!(line, "@{}", asked.priority);
            }
            for (name, count) in &asked.permits {
                let _ = write!(line, " {name}:{count}");
            }
            line
        }
        Call::Renew { id, ttl_us } => format!("R {id} {}", maybe(*ttl_us)),
        Call::Release { id } => format!("L {id}"),
        Call::Force { id } => format!("F {id}"),
        Call::Define {
            semaphore,
            capacity,
        } => format!("D {semaphore} {capacity}"),
        Call::Delete { semaphore } => format!("X {semaphore}"),
        Call::Template { pattern, capacity } => format!("T {pattern} {capacity}"),
        Call::Heartbeat { owner, ttl_us } => format!("H {owner} {ttl_us}"),
        Call::Goodbye { owner } => format!("Y {owner}"),
        Call::Die => "Z".to_owned(),
    }
}

fn call(words: &mut SplitWhitespace<'_>) -> Option<Call> {
    let kind = words.next()?;
    let mut word = || words.next().map(str::to_owned);
    Some(match kind {
        "A" => {
            let (id, ttl, owner, waits) = (word()?, word()?, word()?, word()?);
            let permit = |word: &str| {
                let (name, count) = word.rsplit_once(':')?;
                Some((name.to_owned(), count.parse().ok()?))
            };
            let (waits, priority) = waits.split_once('@').unwrap_or((&waits, "0"));
            Call::Acquire(Asked {
                id,
                permits: words.map(permit).collect::<Option<_>>()?,
                owner: (owner != "-").then_some(owner),
                ttl_us: ttl.parse().ok(),
                waits: waits == "1",
                priority: priority.parse().ok()?,
            })
        }
        "R" => Call::Renew {
            id: word()?,
            ttl_us: word()?.parse().ok(),
        },
        "L" => Call::Release { id: word()? },
        "F" => Call::Force { id: word()? },
        "D" => Call::Define {
            semaphore: word()?,
            capacity: word()?.parse().ok()?,
        },
        "X" => Call::Delete { semaphore: word()? },
        "T" => Call::Template {
            pattern: word()?,
            capacity: word()?.parse().ok()?,
        },
        "H" => Call::Heartbeat {
            owner: word()?,
            ttl_us: word()?.parse().ok()?,
        },
        "Y" => Call::Goodbye { owner: word()? },
        "Z" => Call::Die,
        _ => return None,
    })
}

pub(super) fn of_answer(answer: &Answer) -> String {
    match answer {
        Answer::Granted { permits, now } => {
            let mut line = format!("G {}", u8::from(*now));
            for held in permits {
                let fence = held.fence.map_or(-1, |fence| fence);
                let slots = held.slots.as_deref().unwrap_or("-");
                let _ = write!(line, " {}:{}:{fence}:{slots}", held.semaphore, held.count);
            }
            line
        }
        Answer::Renewed => "R".to_owned(),
        Answer::Ended { now, reason } => format!("E {} {reason}", u8::from(*now)),
        Answer::Done => "D".to_owned(),
        Answer::Unknown => "U".to_owned(),
        Answer::Refused(refused) => match refused {
            Refused::Exhausted(on) => format!("N exhausted {}", on.join(" ")),
            Refused::TooMuch => "N much".to_owned(),
            Refused::UnknownSemaphore => "N semaphore".to_owned(),
            Refused::UnknownRequest => "N request".to_owned(),
            Refused::Ended(reason) => format!("N ended {reason}"),
            Refused::Conflict => "N conflict".to_owned(),
            Refused::Deadlock => "N deadlock".to_owned(),
            Refused::Other(why) => format!("N other {}", why.replace(['\n', '\r'], " ")),
        },
    }
}

fn answer(words: &mut SplitWhitespace<'_>) -> Option<Answer> {
    let kind = words.next()?;
    Some(match kind {
        "G" => {
            let now = words.next()? == "1";
            let held = |word: &str| {
                let (rest, slots) = word.rsplit_once(':')?;
                let (rest, fence) = rest.rsplit_once(':')?;
                let (name, count) = rest.rsplit_once(':')?;
                Some(Held {
                    semaphore: name.to_owned(),
                    count: count.parse().ok()?,
                    fence: fence.parse().ok().filter(|fence| *fence >= 0),
                    slots: (slots != "-").then(|| slots.to_owned()),
                })
            };
            let permits = words.map(held).collect::<Option<_>>()?;
            Answer::Granted { permits, now }
        }
        "R" => Answer::Renewed,
        "E" => Answer::Ended {
            now: words.next()? == "1",
            reason: words.next()?.to_owned(),
        },
        "D" => Answer::Done,
        "U" => Answer::Unknown,
        "N" => Answer::Refused(match words.next()? {
            "exhausted" => Refused::Exhausted(words.map(str::to_owned).collect()),
            "much" => Refused::TooMuch,
            "semaphore" => Refused::UnknownSemaphore,
            "request" => Refused::UnknownRequest,
            "ended" => Refused::Ended(words.next()?.to_owned()),
            "conflict" => Refused::Conflict,
            "deadlock" => Refused::Deadlock,
            _ => Refused::Other(words.collect::<Vec<_>>().join(" ")),
        }),
        _ => return None,
    })
}

fn maybe(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
