//! URLs, patterns and the templates of liveness checks, of any shape.

#![allow(clippy::unwrap_used)]

use lockhouse::liveness::{HttpCheck, SqlCheck};
use lockhouse::{Owner, OwnerPattern};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_pattern_fits_what_its_parts_were_taken_from(
        parts in prop::collection::vec("[ab*]{0,3}", 1..4),
        between in prop::collection::vec("[abc]{0,3}", 3),
    ) {
        let literal: Vec<String> = parts.iter().map(|part| part.replace('*', "")).collect();
        let mut owner = String::new();
        for (i, part) in literal.iter().enumerate() {
            owner += part;
            if i + 1 < literal.len() {
                owner += &between[i];
            }
        }
        if let Ok(owner) = Owner::parse(&owner) {
            prop_assert!(OwnerPattern::new(literal.join("*")).fits(&owner));
            let stranger = Owner::parse(format!("{owner}!")).unwrap();
            let ends_open = literal.last().is_some_and(String::is_empty) && literal.len() > 1;
            prop_assert_eq!(OwnerPattern::new(literal.join("*")).fits(&stranger), ends_open);
        }
    }

    #[test]
    fn a_check_is_made_of_any_text_or_refused(
        text: String,
        scheme in prop::sample::select(vec!["http", "https", "mysql", "postgres", "sqlite"]),
        rest in "[a-z0-9/:@?&=%{}\\[\\]. ]{0,24}",
    ) {
        for url in [text.clone(), format!("{scheme}://ann:s3cr3t@{rest}"), format!("{scheme}:{rest}{{owner}}")] {
            if let Err(refused) = HttpCheck::new(&url) {
                prop_assert!(!refused.to_string().contains("s3cr3t"), "{refused}");
            }
            if let Err(refused) = SqlCheck::new(&url, &text) {
                prop_assert!(!refused.to_string().contains("s3cr3t"), "{refused}");
            }
        }
    }
}

#[tokio::test]
async fn a_password_in_the_url_of_a_server_is_never_shown() {
    for url in [
        "http://ann:s3cr3t@ho st/",
        "http://ann:s3cr3t@host:99999",
        "https://ann:s3cr3t@127.0.0.1:1/?a=b",
        "https://ann:s3cr3t@127.0.0.1:1/#a",
    ] {
        let refused = lockhouse::Lockhouse::connect(url).await.unwrap_err();
        let shown = format!("{refused} {refused:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}

#[test]
fn a_password_in_the_template_of_a_check_is_never_shown() {
    let refused = HttpCheck::new("http://ann:s3cr3t@host/jobs").unwrap_err();
    assert!(!refused.to_string().contains("s3cr3t"), "{refused}");
}
