use lockhouse_core::store::Kind;

use super::*;

#[tokio::test]
async fn a_row_that_can_not_be_read_is_an_error_that_names_its_column() {
    for (damage, column) in [
        (
            "UPDATE lockhouse_semaphore SET name = ' a'",
            "lockhouse_semaphore.name",
        ),
        (
            "UPDATE lockhouse_permit SET count = 1 << 40",
            "lockhouse_permit.count",
        ),
        (
            "UPDATE lockhouse_permit_request SET ttl_ms = 0",
            "lockhouse_permit_request.ttl_ms",
        ),
        (
            "UPDATE lockhouse_permit_request SET owner = ''",
            "lockhouse_permit_request.owner",
        ),
        (
            "UPDATE lockhouse_permit_request SET ended_by = ''",
            "lockhouse_permit_request.ended_by",
        ),
        (
            "UPDATE lockhouse_permit_request SET expires_at = 9223372036854775807",
            "lockhouse_permit_request.expires_at",
        ),
        (
            "UPDATE lockhouse_permit_request
             SET state = 'RELEASED', end_reason = 'whim', released_at = 0",
            "lockhouse_permit_request.end_reason",
        ),
    ] {
        let (place, store) = Place::migrated().await;
        run(&store, define("a", 1)).await.unwrap().unwrap();
        granted(run(&store, acquire("r", "a")).await);
        place.connect().execute(damage, ()).unwrap();
        for error in [
            store.request(&id("r")).await.unwrap_err(),
            run(&store, Command::release(id("r"))).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Rejected, "{error}");
            assert!(error.to_string().contains(column), "{error}");
        }
    }
}

#[tokio::test]
async fn a_session_that_can_not_be_read_is_an_error_that_names_its_column() {
    let (place, store) = Place::migrated().await;
    run_all(&store, [heartbeat("o", 1_000)]).await;
    let damage = "UPDATE lockhouse_owner_session SET ttl_ms = 1 << 60";
    place.connect().execute(damage, ()).unwrap();
    let goodbye = Command::Goodbye { owner: owner("o") };
    let error = run(&store, goodbye).await.unwrap_err();
    assert!(
        error.to_string().contains("lockhouse_owner_session.ttl_ms"),
        "{error}"
    );
}
