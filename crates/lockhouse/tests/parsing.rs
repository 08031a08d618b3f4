//! What comes from outside, of any shape: bodies of a server that may be none of ours, cursors,
//! URLs, and the templates of liveness checks.

#![allow(clippy::unwrap_used)]

use lockhouse::liveness::{HttpCheck, SqlCheck};
use lockhouse::wire::{self, Acquire, Define, Heartbeat, Problem, Renew};
use lockhouse::{Error, ExternalId, Owner, OwnerPattern, SemaphoreName, SemaphoreStatus};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const MEMBERS: [&str; 28] = [
    "permits",
    "semaphore",
    "count",
    "fence",
    "owner",
    "ttl_ms",
    "wait_ms",
    "priority",
    "external_id",
    "state",
    "end_reason",
    "expires_at",
    "created_at",
    "released_at",
    "name",
    "capacity",
    "in_use",
    "available",
    "waiting",
    "updated_at",
    "note",
    "expected_capacity",
    "code",
    "status",
    "detail",
    "semaphores",
    "asked",
    "released",
];

/// JSON that looks like ours, with anything in it.
fn documents() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
    ];
    let word = prop::sample::select(vec![
        "a",
        "",
        "acquired",
        "released",
        "expired",
        "exhausted",
        "request_ended",
        "exceeds_capacity",
        "2026-01-31T00:00:00Z",
        "+262143-12-31T23:59:59Z",
        "-009999-01-01T00:00:00Z",
        " a",
        "a\n",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        word.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 12, |inner| {
        let member = (prop::sample::select(MEMBERS.to_vec()), inner.clone());
        let members = prop::collection::vec(member, 0..12);
        let object = members.prop_map(|members| {
            let members = members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            Value::Object(members.collect::<Map<_, _>>())
        });
        prop_oneof![
            object,
            prop::collection::vec(inner, 0..4).prop_map(Value::Array)
        ]
    })
}

/// A request as a server of ours may say it, but for its times and numbers.
fn requests() -> impl Strategy<Value = Value> {
    let time = prop::sample::select(vec![
        "1970-01-01T00:00:00Z",
        "2026-01-31T00:00:00.123456789Z",
        "9999-12-30T22:00:00Z",
        "-009999-01-02T01:59:59Z",
    ]);
    let state = prop::sample::select(vec!["acquired", "released", "ACQUIRED", "lost"]);
    (state, time.clone(), time, any::<u64>(), any::<i64>()).prop_map(|(state, one, other, fence, ttl_ms)| {
        json!({
            "external_id": "a", "state": state, "end_reason": null, "owner": null, "ttl_ms": ttl_ms,
            "permits": [{"semaphore": "a", "count": 1, "fence": fence}],
            "expires_at": one, "created_at": other, "released_at": null,
        })
    })
}

fn read<T: DeserializeOwned>(document: &Value) -> Option<T> {
    serde_json::from_slice(document.to_string().as_bytes()).ok()
}

proptest! {
    #[test]
    fn no_body_stops_who_reads_it(document in prop_oneof![documents(), requests()]) {
        if let Some(acquire) = read::<Acquire>(&document) {
            let id = ExternalId::parse("a").unwrap();
            if let Ok((ask, wait)) = acquire.parse(id) {
                prop_assert!(wait <= wire::MAX_WAIT);
                prop_assert!((1..=64).contains(&ask.permits().count()));
            }
        }
        if let Some(request) = read::<wire::Request>(&document)
            && let Ok(request) = lockhouse::Request::try_from(request)
        {
            let said = serde_json::to_value(wire::Request::from(&request)).unwrap();
            prop_assert_eq!(&said["permits"], &document["permits"]);
            let again = lockhouse::Request::try_from(read::<wire::Request>(&said).unwrap());
            prop_assert_eq!(again.unwrap(), request);
        }
        if let Some(semaphore) = read::<wire::Semaphore>(&document) {
            let _ = SemaphoreStatus::try_from(semaphore);
        }
        if let Some(problem) = read::<Problem>(&document) {
            let again = Problem::from(&Error::from(problem));
            prop_assert!(!again.code.is_empty());
        }
        let _ = (read::<Define>(&document), read::<Renew>(&document), read::<Heartbeat>(&document));
        let _ = (read::<wire::Requests>(&document), read::<wire::History>(&document));
    }

    #[test]
    fn a_cursor_is_one_of_ours_or_refused(text: String, name in "\\PC{1,40}") {
        if let Ok(name) = SemaphoreName::parse(&name) {
            prop_assert_eq!(wire::key::<SemaphoreName>(&wire::cursor(name.as_str())), Ok(name));
        }
        if let Ok(name) = wire::key::<SemaphoreName>(&text) {
            prop_assert_eq!(wire::cursor(name.as_str()), text);
        }
    }

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
