use super::*;

fn id() -> ExternalId {
    ExternalId::parse("job-1").unwrap()
}

fn ask() -> Ask {
    let name = |name| SemaphoreName::parse(name).unwrap();
    let permits = [
        (name("b"), Count::new(i32::MAX).unwrap()),
        (name("a"), Count::ONE),
    ];
    let mut ask = Ask::new(id(), permits).unwrap();
    ask.owner = Some(Owner::parse("ann").unwrap());
    ask.ttl = Some(Ttl::from_ms(60_000).unwrap());
    ask
}

#[test]
fn an_ask_comes_back_as_it_was_sent() {
    let sent =
        serde_json::to_string(&Acquire::of(&ask(), Duration::from_nanos(1_000_001))).unwrap();
    let read: Acquire = serde_json::from_str(&sent).unwrap();
    assert_eq!(
        read.parse(id()).unwrap(),
        (ask(), Duration::from_millis(2)),
        "a wait is rounded up"
    );
}

#[test]
fn what_is_not_said_is_one_permit_without_ttl_nor_wait() {
    let body: Acquire = serde_json::from_str(r#"{"permits":[{"semaphore":"a"}]}"#).unwrap();
    let (ask, wait) = body.parse(id()).unwrap();
    assert_eq!(
        ask.permits().map(|(_, count)| count).collect::<Vec<_>>(),
        [Count::ONE]
    );
    assert_eq!((ask.owner, ask.ttl, wait), (None, None, Duration::ZERO));
}

#[test]
fn a_value_out_of_bounds_names_its_field() {
    let bodies = [
        ("count", r#"{"permits":[{"semaphore":"a","count":0}]}"#),
        ("semaphore", r#"{"permits":[{"semaphore":""}]}"#),
        ("permits", r#"{"permits":[]}"#),
        ("owner", r#"{"permits":[{"semaphore":"a"}],"owner":" "}"#),
        (
            "ttl_ms",
            r#"{"permits":[{"semaphore":"a"}],"ttl_ms":9223372036854775807}"#,
        ),
        ("wait_ms", r#"{"permits":[{"semaphore":"a"}],"wait_ms":-1}"#),
        (
            "wait_ms",
            r#"{"permits":[{"semaphore":"a"}],"wait_ms":86400001}"#,
        ),
        (
            "priority",
            r#"{"permits":[{"semaphore":"a"}],"priority":101}"#,
        ),
    ];
    for (field, body) in bodies {
        let body: Acquire = serde_json::from_str(body).unwrap();
        assert_eq!(body.parse(id()).unwrap_err().field(), field);
    }
}

#[test]
fn a_request_comes_back_as_it_was_sent() {
    let ended = |reason| State::Released {
        reason,
        at: Timestamp::UNIX_EPOCH,
    };
    let states = EndReason::ALL
        .into_iter()
        .map(ended)
        .chain([State::Acquired]);
    let finished_at = [None, Some(Timestamp::UNIX_EPOCH)];
    let states = states.flat_map(|state| finished_at.map(|finished_at| (state, finished_at)));
    for (state, finished_at) in states {
        let mut request = lockhouse_core::Request {
            external_id: id(),
            owner: ask().owner,
            state,
            permits: vec![lockhouse_core::Grant {
                semaphore: SemaphoreName::parse("a").unwrap(),
                count: Count::ONE,
                fence: u64::MAX,
                slots: Some(Slots::of([4_095]).unwrap()),
            }],
            ttl: ask().ttl,
            expires_at: Some("2026-01-02T03:04:05.000006Z".parse().unwrap()),
            finished_at,
            created_at: Timestamp::UNIX_EPOCH,
            ended_by: (!matches!(state, State::Acquired)).then(|| Owner::parse("bob").unwrap()),
        };
        let sent = Released {
            released: true,
            decided_at: Timestamp::UNIX_EPOCH,
            request: Request::from(&request),
        };
        request.state = request.seen_state();
        let read: Released = serde_json::from_str(&serde_json::to_string(&sent).unwrap()).unwrap();
        assert_eq!(
            lockhouse_core::Request::try_from(read.request).unwrap(),
            request
        );
    }
}
