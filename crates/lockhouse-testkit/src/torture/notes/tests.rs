use super::*;
use crate::history::{Asked, Held, NEVER, Refused};

fn everything() -> Vec<(Call, Answer)> {
    let id = || "s1-a".to_owned();
    let asked = Asked {
        id: id(),
        permits: vec![("s1-x".into(), 2), ("s1-y".into(), 1)],
        owner: Some("ann".into()),
        ttl_us: Some(5),
        waits: true,
        priority: -3,
    };
    let plain = Asked {
        owner: None,
        ttl_us: None,
        waits: false,
        priority: 0,
        ..asked.clone()
    };
    let held = Held {
        semaphore: "s1-x".into(),
        count: 2,
        fence: Some(7),
        slots: Some("31".into()),
    };
    let permits = vec![held];
    let (semaphore, owner) = ("s1-x".to_owned(), "ann".to_owned());
    let ended = |now| Answer::Ended {
        now,
        reason: "released".into(),
    };
    let refused = Answer::Refused;
    vec![
        (Call::Acquire(asked), Answer::Granted { permits, now: true }),
        (
            Call::Acquire(plain.clone()),
            refused(Refused::Exhausted(vec!["s1-y".into()])),
        ),
        (Call::Acquire(plain.clone()), refused(Refused::TooMuch)),
        (
            Call::Acquire(plain.clone()),
            refused(Refused::UnknownSemaphore),
        ),
        (Call::Acquire(plain), refused(Refused::Conflict)),
        (
            Call::Renew {
                id: id(),
                ttl_us: None,
            },
            Answer::Renewed,
        ),
        (
            Call::Renew {
                id: id(),
                ttl_us: Some(9),
            },
            refused(Refused::Ended("expired".into())),
        ),
        (Call::Release { id: id() }, ended(true)),
        (Call::Force { id: id() }, ended(false)),
        (Call::Release { id: id() }, refused(Refused::UnknownRequest)),
        (
            Call::Define {
                semaphore: semaphore.clone(),
                capacity: 4,
            },
            Answer::Done,
        ),
        (
            Call::Delete { semaphore },
            refused(Refused::Other("in the way".into())),
        ),
        (
            Call::Template {
                pattern: "s1-key/*".into(),
                capacity: 2,
            },
            Answer::Done,
        ),
        (
            Call::Heartbeat {
                owner: owner.clone(),
                ttl_us: 7,
            },
            Answer::Unknown,
        ),
        (Call::Goodbye { owner }, refused(Refused::Deadlock)),
        (Call::Die, Answer::Done),
    ]
}

#[test]
fn notes_survive_a_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    let notes = Notes::create(&path);
    for (call, answer) in everything() {
        let place = notes.begin(3, call);
        notes.end(place, &answer);
    }
    let read = read(&path);
    let pairs: Vec<_> = read
        .iter()
        .map(|o| (o.call.clone(), o.answer.clone()))
        .collect();
    assert_eq!(pairs, everything());
    assert!(read.iter().all(|o| o.client == 3 && o.begun <= o.ended));
    assert_eq!(notes.answered(), 15);
}

/// A locked row must be noticed: a semaphore counts as at work only once an ask for it learns whether there is room.
#[test]
fn a_semaphore_is_at_work_when_an_ask_for_it_alone_or_with_others_was_decided() {
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes::create(&folder.path().join("notes"));
    let both = ["s1-x".to_owned(), "s1-y".to_owned()];
    let told = |some: &[&str], waits, answer| {
        let ask = Asked {
            id: "s1-a".into(),
            permits: some.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            owner: None,
            ttl_us: None,
            waits,
            priority: 0,
        };
        let begun = now_us();
        let place = notes.begin(1, Call::Acquire(ask));
        notes.end(place, &answer);
        notes.at_work(&both) >= begun
    };
    let no_room = || Answer::Refused(Refused::Exhausted(vec!["s1-x".into()]));
    let unknown = || Answer::Refused(Refused::UnknownSemaphore);
    let mut calls = everything().into_iter().map(|(call, _)| call);
    let beat = calls.find(|call| matches!(call, Call::Heartbeat { .. }));
    let beat = notes.begin(1, beat.unwrap());
    notes.end(beat, &Answer::Done);
    assert!(!told(&["s1-x"], false, no_room()));
    assert!(!told(&["s1-y"], false, Answer::Unknown));
    assert!(!told(&["s1-y"], true, no_room()));
    assert!(!told(&["s1-x", "s1-y"], false, unknown()));
    assert_eq!(notes.at_work(&both), 0);
    assert!(notes.at_work(&both[..1]) > 0);
    told(&["s1-y"], false, unknown());
    assert!(notes.at_work(&both) > 0);
    assert!(told(&["s1-x", "s1-y"], false, no_room()));
}

/// P9: the calls that a killed process had begun are unknown.
#[test]
fn an_unanswered_call_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    let notes = Notes::create(&path);
    notes.begin(1, Call::Die);
    notes.write("E 0 12"); // killed as it wrote
    let read = read(&path);
    assert_eq!((read[0].ended, &read[0].answer), (NEVER, &Answer::Unknown));
}
