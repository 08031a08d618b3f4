//! Texts: they are stored as they are, whatever they mean to a database.

use lockhouse_core::{Capacity, Command, Definition, Note, SemaphoreName};

use super::words::*;
use crate::place::Place;

/// Texts that mean something to a database, the longest ones, and random ones.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "'; DROP TABLE lockhouse_semaphore; --",
        "\\",
        "\\'",
        "''",
        "\"`",
        "x'00'",
        "%_",
        "🚀👩‍👩‍👧",
        "/*!99999 x */",
        "\u{10ffff}",
    ]
    .map(str::to_owned)
    .into();
    texts.push("🚀".repeat(63));
    texts.push("x".repeat(255));
    texts.extend((0..50).map(|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let chars = std::iter::repeat_with(|| random.char('!'..)).filter(|c| !c.is_control());
        chars.take(60).collect::<String>().trim().to_owned()
    }));
    texts.retain(|text| SemaphoreName::parse(text).is_ok());
    texts
}

/// As names, ids, owners and notes.
pub async fn any_text_is_read_as_it_was_written(place: &Place) {
    let store = place.store().await;
    let mut texts = texts();
    assert!(texts.len() > 40);
    for text in &texts {
        let note = Note::parse(text).unwrap();
        run(&store, [define(text, 1)]).await;
        let resize = Command::Define(Definition {
            must_exist: true,
            changed_by: Some(owner(text)),
            note: Some(note.clone()),
            ..Definition::new(name(text), Capacity::new(2).unwrap())
        });
        run(&store, [resize]).await;
        let ask = acquire_for(text, &[text], Some(text), None);
        let granted = granted(&store, ask).await;
        assert_eq!(request(&store, text).await, granted);
        let history = store.history(&name(text), ALL).await.unwrap();
        assert_eq!(history[0].changed_by, Some(owner(text)));
        assert_eq!(history[0].note, Some(note));
    }
    texts.sort();
    let listed = store.semaphores(None, &first(ALL)).await.unwrap();
    assert!(listed.iter().map(|row| row.name.as_str()).eq(&texts));
}
