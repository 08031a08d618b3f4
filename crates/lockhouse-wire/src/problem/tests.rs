use super::*;

fn refusals() -> Vec<Refusal> {
    let name = |name| SemaphoreName::parse(name).unwrap();
    let id = ExternalId::parse("job-1::é").unwrap();
    let ended = EndReason::ALL.map(|reason| Refusal::RequestEnded {
        external_id: id.clone(),
        reason,
    });
    let mut refusals = vec![
        Refusal::UnknownSemaphore(vec![name("a"), name("b/c")]),
        Refusal::UnknownRequest(id.clone()),
        Refusal::ExceedsCapacity {
            semaphore: name("a"),
            asked: Count::new(3).unwrap(),
            capacity: Capacity::CLOSED,
        },
        Refusal::Exhausted(vec![name("a"), name("b")]),
        Refusal::Closed(vec![name("a"), name("b")]),
        Refusal::IdempotencyConflict(id.clone()),
        Refusal::NoTtl(id),
        Refusal::SessionEnded(Owner::parse("ann").unwrap()),
        Refusal::CapacityChanged {
            name: name("a"),
            expected: Capacity::CLOSED,
            capacity: Capacity::new(3).unwrap(),
        },
        Refusal::SlotsDiffer {
            name: name("a"),
            was_slotted: false,
        },
        Refusal::TooManySlots {
            name: name("a"),
            capacity: Capacity::new(5_000).unwrap(),
        },
        Refusal::SemaphoreInUse {
            name: name("a"),
            in_use: 7,
        },
    ];
    refusals.extend(ended);
    refusals
}

/// Through JSON and back.
fn sent(error: &Error) -> (Problem, Error) {
    let text = serde_json::to_string(&Problem::from(error)).unwrap();
    let problem: Problem = serde_json::from_str(&text).unwrap();
    (problem.clone(), Error::from(problem))
}

#[test]
fn every_refusal_comes_back_as_it_was_sent() {
    for refusal in refusals() {
        let (problem, back) = sent(&refusal.clone().into());
        assert_eq!(problem.code, refusal.code().as_str());
        assert!(
            matches!(&back, Error::Refused(back) if *back == refusal),
            "{back:?}"
        );
    }
}

#[test]
fn every_error_comes_back_as_one_to_treat_alike() {
    let store = |kind| Error::from(store::Error::new(kind, "asking the store"));
    let denied = |code| Error::Denied {
        code,
        detail: "send a token".into(),
    };
    let errors = [
        Error::Invalid(Invalid::new("permits", "name \"a\" twice")),
        store(Kind::Conflict),
        store(Kind::Unavailable),
        store(Kind::Unknown),
        store(Kind::Rejected),
        Error::Overloaded,
        denied(Code::Unauthenticated),
        denied(Code::Forbidden),
        Error::Internal("a lane ended".into()),
    ];
    for error in errors {
        let (problem, back) = sent(&error);
        assert_eq!(back.code(), error.code());
        assert_eq!(back.to_string(), error.to_string());
        assert_eq!(back.is_transient(), error.is_transient(), "{error:?}");
        assert_eq!(back.maybe_applied(), error.maybe_applied(), "{error:?}");
        let may_do_better = problem.retry_after_s().is_some();
        assert_eq!(may_do_better, error.is_transient(), "{error:?}");
    }
}

#[test]
fn an_invalid_field_comes_back_as_it_was_sent() {
    let invalid = Invalid::new("capacity", "is -1, it goes from 0 to 2147483647");
    let problem = Problem::malformed(&invalid);
    assert_eq!(
        (problem.status, problem.field.as_deref()),
        (400, Some("capacity"))
    );
    assert!(matches!(Error::from(problem), Error::Invalid(back) if back == invalid));
}

#[test]
fn a_schema_of_another_version_is_the_stores_trouble() {
    let schema = Error::from(store::Error::new(Kind::Schema, "the schema is newer"));
    assert_eq!(sent(&schema).0.status, 503);
}

#[test]
fn an_error_with_a_code_of_a_later_version_keeps_its_detail() {
    let text = r#"{"code":"quota_exceeded","status":429,"detail":"no more today","x":1}"#;
    let problem: Problem = serde_json::from_str(text).unwrap();
    assert_eq!(Error::from(problem).to_string(), "no more today");
}

#[test]
fn statuses_are_those_of_the_contract() {
    let statuses = Code::ALL
        .iter()
        .map(|code| (code.as_str(), Problem::new(*code, "").status));
    let expected = [
        ("invalid_request", 422),
        ("exceeds_capacity", 422),
        ("unknown_semaphore", 404),
        ("unknown_request", 404),
        ("semaphore_in_use", 409),
        ("capacity_changed", 409),
        ("idempotency_conflict", 409),
        ("request_ended", 410),
        ("session_ended", 410),
        ("exhausted", 423),
        ("unauthenticated", 401),
        ("forbidden", 403),
        ("store_unavailable", 503),
        ("overloaded", 503),
        ("internal", 500),
    ];
    assert!(statuses.eq(expected));
}
