//! A history in plain words, one line for each call.

use crate::history::{Answer, Asked, Call, NEVER, Operation, Refused};

/// A call, and its words.
type Line<'a> = (&'a Operation, String);

/// Tells what the clients did, and when. Lines that repeat, but for their fences, are counted.
pub(super) fn told(history: &[Operation]) -> Vec<String> {
    let lines = history.iter();
    let lines = lines.filter_map(|operation| Some((operation, words(operation)?)));
    let mut lines: Vec<Line<'_>> = lines.collect();
    lines.sort_by_key(|(operation, _)| when(operation));
    let begun = history.first().map_or(0, |operation| operation.begun);
    let (mut told, mut rest) = (Vec::new(), &lines[..]);
    while let [(operation, _), ..] = rest {
        let (period, times) = repeated(rest);
        let texts: Vec<_> = rest[..period].iter().map(|(_, text)| &text[..]).collect();
        let more = match (times, fence(operation)) {
            (1, Some(fence)) => format!(", with the fence {fence}"),
            (1, None) => String::new(),
            _ => format!(" ({times} times)"),
        };
        let at_s = seconds(when(operation).saturating_sub(begun));
        told.push(format!("{at_s:.1} s: {}{more}", texts.join(", then ")));
        rest = &rest[period * times..];
    }
    told
}

/// How many of the first lines repeat as a group, and how often the group is there.
fn repeated(lines: &[Line<'_>]) -> (usize, usize) {
    let texts: Vec<_> = lines.iter().map(|(_, text)| text).collect();
    for period in [1, 2] {
        let groups = texts.chunks_exact(period);
        let times = groups.take_while(|group| texts.starts_with(group)).count();
        if times > 1 {
            return (period, times);
        }
    }
    (1, 1)
}

fn when(operation: &Operation) -> u64 {
    match operation.ended {
        NEVER => operation.begun,
        ended => ended,
    }
}

fn words(operation: &Operation) -> Option<String> {
    let client = format!("client {}", operation.client);
    Some(match (&operation.call, &operation.answer) {
        (Call::Define { capacity: 1, .. }, _) => "there is 1 permit".to_owned(),
        (Call::Define { capacity, .. }, _) => format!("there are {capacity} permits"),
        (Call::Acquire(asked), Answer::Granted { .. }) => {
            format!("{client} gets a permit for {} s", ttl_s(asked))
        }
        (Call::Acquire(_), Answer::Refused(Refused::Exhausted(_))) => {
            format!("{client} is refused, since there is no room")
        }
        (Call::Acquire(_), Answer::Refused(_)) => format!("{client} is refused"),
        (Call::Acquire(_), _) => format!("{client} gets no answer to its acquire"),
        (Call::Release { .. }, Answer::Ended { now: true, .. }) => format!("{client} releases it"),
        (Call::Release { .. }, Answer::Ended { .. } | Answer::Refused(_)) => {
            format!("the release of {client} is refused")
        }
        (Call::Release { .. }, _) => format!("{client} gets no answer to its release"),
        (Call::Die, _) => format!("{client} dies"),
        _ => return None,
    })
}

fn fence(operation: &Operation) -> Option<i64> {
    match &operation.answer {
        Answer::Granted { permits, .. } => permits.first()?.fence,
        _ => None,
    }
}

fn ttl_s(asked: &Asked) -> f64 {
    seconds(asked.ttl().unsigned_abs())
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(client: u32, at: u64, call: Call, answer: Answer) -> Operation {
        Operation {
            client,
            call,
            begun: at,
            ended: at,
            answer,
        }
    }

    fn release(client: u32, at: u64, now: bool) -> Operation {
        let (id, reason) = ("a".to_owned(), "released".to_owned());
        operation(
            client,
            at,
            Call::Release { id },
            Answer::Ended { now, reason },
        )
    }

    #[test]
    fn lines_that_repeat_are_counted() {
        let define = Call::Define {
            semaphore: "s".to_owned(),
            capacity: 2,
        };
        let history = [
            operation(0, 1_000_000, define, Answer::Done),
            release(1, 1_100_000, true),
            release(1, 1_200_000, true),
            release(1, 1_300_000, true),
            release(2, 2_000_000, true),
            release(2, 2_100_000, false),
            release(2, 2_200_000, true),
            release(2, 2_300_000, false),
            release(2, 2_400_000, true),
            operation(2, 2_500_000, Call::Die, Answer::Done),
        ];
        let expected = [
            "0.0 s: there are 2 permits",
            "0.1 s: client 1 releases it (3 times)",
            "1.0 s: client 2 releases it, then the release of client 2 is refused (2 times)",
            "1.4 s: client 2 releases it",
            "1.5 s: client 2 dies",
        ];
        assert_eq!(told(&history), expected);
        assert_eq!(told(&[]), [""; 0]);
    }
}
