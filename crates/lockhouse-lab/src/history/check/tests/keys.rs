//! Waiters that lack a semaphore of a template.

use super::*;

fn asks(id: &str, names: &[&str], waits: bool) -> Call {
    Call::Acquire(Asked {
        permits: names.iter().map(|name| ((*name).to_owned(), 1)).collect(),
        waits,
        ..ask(id)
    })
}

fn no_room(name: &str) -> Answer {
    Answer::Refused(Refused::Exhausted(vec![name.to_owned()]))
}

fn has(names: &[&str]) -> Answer {
    let held = names.iter().map(|name| Held {
        semaphore: (*name).to_owned(),
        count: 1,
        fence: Some(1),
        slots: None,
    });
    Answer::Granted {
        permits: held.collect(),
        now: true,
    }
}

/// A holder has the key `x` and one of the two permits of `all`. A waiter waits for `wanted` until 8 s. Meanwhile an ask for
/// the key `y` is refused.
fn story(wanted: &[&str]) -> Vec<Promise> {
    let mut story = Story::default();
    let template = Call::Template {
        pattern: "key/*".into(),
        capacity: 1,
    };
    story.says(0, template, Answer::Done);
    let define = Call::Define {
        semaphore: "all".into(),
        capacity: 2,
    };
    story.says(0, define, Answer::Done);
    let first = ["key/x", "all"];
    story.says(SECOND, asks("first", &first, false), has(&first));
    if !wanted.is_empty() {
        let waits = asks("waits", wanted, true);
        story.says(2 * SECOND, waits, no_room("key/x")).ended = 8 * SECOND;
    }
    let other = asks("other", &["key/y", "all"], false);
    story.says(5 * SECOND, other, no_room("all"));
    let found = check(&story.history, None);
    found.iter().map(|violation| violation.promise).collect()
}

/// P11.
#[test]
fn a_waiter_without_its_key_reserves_nothing() {
    assert_eq!(story(&["key/x", "all"]), [Promise::P11]);
    assert_eq!(story(&["all"]), [], "it comes first");
    assert_eq!(story(&["key/z", "all"]), [], "it may have its key");
    assert_eq!(story(&[]), [Promise::P10]);
}
