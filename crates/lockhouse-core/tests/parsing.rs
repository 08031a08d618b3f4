//! Which texts and numbers the parsers of names, notes and numbers accept.

use std::time::Duration;

use lockhouse_core::{
    Capacity, Code, Count, EndReason, ExternalId, Note, Owner, Priority, SemaphoreName, Ttl,
};
use proptest::prelude::*;

/// Text with characters that are likely to go wrong, and of lengths around the bound.
fn texts() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "a", "é", "🛶", " ", "\u{a0}", "\u{3000}", "\n", "\t", "\0", "\u{7f}", "\u{85}",
        "\u{200b}", "'", "\"", "\\", "%", "/", ";",
    ]);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(odd, 0..6).prop_map(|parts| parts.concat()),
        (250..260_usize).prop_map(|length| "x".repeat(length)),
        (120..130_usize).prop_map(|length| "é".repeat(length)),
    ]
}

/// The rule of names, ids and owners, written differently from the code.
fn is_name(text: &str) -> bool {
    let ends = [text.chars().next(), text.chars().next_back()];
    let is_padded = ends.into_iter().flatten().any(char::is_whitespace);
    (1..=255).contains(&text.len()) && !is_padded && !text.chars().any(char::is_control)
}

proptest! {
    #[test]
    fn a_name_is_taken_as_it_is_or_not_at_all(text in texts()) {
        let valid = is_name(&text);
        let name = SemaphoreName::parse(&text);
        let id = ExternalId::parse(&text);
        let owner = Owner::parse(&text);
        prop_assert_eq!([name.is_ok(), id.is_ok(), owner.is_ok()], [valid; 3]);
        if let Ok(name) = name {
            prop_assert_eq!(name.as_str(), &text);
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn a_note_is_taken_as_it_is_or_not_at_all(text in texts(), times in 1..12_usize) {
        let text = text.repeat(times);
        let strange = |c: char| c.is_control() && !"\n\r\t".contains(c);
        let note = Note::parse(&text);
        prop_assert_eq!(note.is_ok(), text.len() <= 1024 && !text.chars().any(strange));
        if let Ok(note) = note {
            prop_assert_eq!(note.as_str(), &text);
        }
    }

    #[test]
    fn a_number_is_in_its_bounds_or_refused(wide: i128, narrow in -3..=3_i128, about in 0..5_usize) {
        let about = [0, 1, 1 << 31, i128::from(u32::MAX), i128::from(i64::MAX)][about];
        for number in [wide, about + narrow] {
            let most = i128::from(i32::MAX);
            let count = Count::new(number).map(|count| i128::from(count.value()));
            prop_assert_eq!(count.ok(), Some(number).filter(|n| (1..=most).contains(n)));
            let capacity = Capacity::new(number).map(|capacity| i128::from(capacity.value()));
            prop_assert_eq!(capacity.ok(), Some(number).filter(|n| (0..=most).contains(n)));
        }
    }

    #[test]
    fn a_ttl_is_in_its_bounds_or_refused(seconds: u64, ms: i64, nanoseconds in 0..1_000_000_000_u32) {
        let most = Duration::from_secs(366 * 24 * 60 * 60);
        for duration in [
            Duration::new(seconds, nanoseconds),
            Duration::new(seconds % (400 * 24 * 60 * 60), nanoseconds),
            Duration::from_nanos(nanoseconds.into()),
        ] {
            if let Ok(ttl) = Ttl::new(duration) {
                prop_assert!((Duration::from_millis(1)..=most).contains(&ttl.as_duration()));
            } else {
                prop_assert!(duration < Duration::from_millis(1) || duration > most);
            }
        }
        let is_within = u64::try_from(ms).is_ok_and(|ms| u128::from(ms) <= most.as_millis() && ms > 0);
        prop_assert_eq!(Ttl::from_ms(ms).is_ok(), is_within);
    }

    #[test]
    fn a_parsed_word_is_written_as_it_was_read(text in texts(), priority: i32) {
        if let Some(code) = Code::parse(&text) {
            prop_assert_eq!(code.as_str(), &text);
        }
        if let Some(reason) = EndReason::parse(&text) {
            prop_assert_eq!(reason.as_str(), &text);
        }
        prop_assert_eq!(Priority::new(priority).is_ok(), (-100..=100).contains(&priority));
    }
}
