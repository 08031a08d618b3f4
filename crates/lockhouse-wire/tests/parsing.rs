//! Bodies and cursors from outside, of any shape: the other end may be none of ours.

#![allow(clippy::unwrap_used)]

use lockhouse_core::{Error, ExternalId, SemaphoreName, SemaphoreStatus};
use lockhouse_wire::{self as wire, Acquire, Define, Heartbeat, Problem, Renew};
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
    fn bodies_of_any_shape_are_read_or_refused(document in prop_oneof![documents(), requests()]) {
        if let Some(acquire) = read::<Acquire>(&document) {
            let id = ExternalId::parse("a").unwrap();
            if let Ok((ask, wait)) = acquire.parse(id) {
                prop_assert!(wait <= wire::MAX_WAIT);
                prop_assert!((1..=64).contains(&ask.permits().count()));
            }
        }
        if let Some(request) = read::<wire::Request>(&document)
            && let Ok(request) = lockhouse_core::Request::try_from(request)
        {
            let said = serde_json::to_value(wire::Request::from(&request)).unwrap();
            prop_assert_eq!(&said["permits"], &document["permits"]);
            let again = lockhouse_core::Request::try_from(read::<wire::Request>(&said).unwrap());
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
    fn a_cursor_that_no_listing_gave_is_refused(text: String, name in "\\PC{1,40}") {
        if let Ok(name) = SemaphoreName::parse(&name) {
            prop_assert_eq!(wire::key::<SemaphoreName>(&wire::cursor(name.as_str())), Ok(name));
        }
        if let Ok(name) = wire::key::<SemaphoreName>(&text) {
            prop_assert_eq!(wire::cursor(name.as_str()), text);
        }
    }
}
