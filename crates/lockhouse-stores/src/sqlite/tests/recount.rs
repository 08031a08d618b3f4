use lockhouse_core::store::Upkeep as _;

use super::*;

/// Two semaphores, `b` deleted, with three requests, `ended` over.
async fn place_with_requests() -> (Place, Sqlite) {
    let (place, store) = Place::migrated().await;
    let ask = Ask::new(id("large"), [(name("a"), Count::new(3).unwrap())]).unwrap();
    run_all(
        &store,
        [
            define("a", 9),
            define("b", 9),
            acquire("small", "a"),
            acquire("ended", "a"),
            Command::release(id("ended")),
            Command::acquire(ask),
            Command::Delete { name: name("b") },
        ],
    )
    .await;
    (place, store)
}

fn change(place: &Place, sql: &str) {
    let connection = place.connect();
    let unchecked = "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF";
    connection.execute_batch(unchecked).unwrap();
    connection.execute_batch(sql).unwrap();
}

async fn promises(store: &Sqlite) -> Vec<&'static str> {
    let findings = store.recount().await.unwrap().findings();
    findings.iter().map(|finding| finding.promise).collect()
}

#[tokio::test]
async fn each_broken_promise_is_found() {
    for (damage, expected) in [
        (
            "UPDATE lockhouse_semaphore SET in_use = 3",
            vec!["P2", "P2"],
        ),
        ("UPDATE lockhouse_semaphore SET fence = 2", vec!["P7"]),
        ("UPDATE lockhouse_semaphore SET capacity = 3", vec!["P1"]),
        ("UPDATE lockhouse_permit SET fence = 1", vec!["P7"]),
    ] {
        let (place, store) = place_with_requests().await;
        change(&place, damage);
        assert_eq!(promises(&store).await, expected, "{damage}");
    }
}

/// P1: permits that were granted before a resize do not count against it, even if the clock was set
/// back in between.
#[tokio::test]
async fn a_clock_that_was_set_back_breaks_no_promise() {
    let (place, store) = place_with_requests().await;
    let future = "UPDATE lockhouse_permit_request SET created_at = created_at + 3600000000";
    change(&place, future);
    run_all(&store, [define("a", 1)]).await;
    assert!(promises(&store).await.is_empty());

    let granted = "UPDATE lockhouse_permit SET fence = 4 WHERE count = 3";
    change(&place, granted);
    assert_eq!(promises(&store).await, ["P1"], "what came after is");
}

/// P3
#[tokio::test]
async fn each_torn_request_is_found() {
    let requests = "UPDATE lockhouse_permit_request SET";
    for (damage, torn) in [
        (format!("{requests} end_reason = NULL"), "ended"),
        (format!("{requests} released_at = NULL"), "ended"),
        (
            format!("{requests} released_at = 1 WHERE external_id = 'large'"),
            "large",
        ),
        (
            format!("{requests} end_reason = 'forced' WHERE external_id = 'small'"),
            "small",
        ),
        (
            format!("{requests} ended_by = 'o' WHERE external_id = 'small'"),
            "small",
        ),
        (
            "DELETE FROM lockhouse_permit WHERE count = 3".into(),
            "large",
        ),
        (
            "DELETE FROM lockhouse_permit WHERE permit_request_id =
                (SELECT id FROM lockhouse_permit_request WHERE external_id = 'ended')"
                .into(),
            "ended",
        ),
    ] {
        let (place, store) = place_with_requests().await;
        change(&place, &damage);
        let recount = store.recount().await.unwrap();
        assert_eq!(recount.torn, [id(torn)], "{damage}");
    }
}

#[tokio::test]
async fn the_first_thousand_torn_requests_are_reported_in_byte_order() {
    let (place, store) = Place::migrated().await;
    change(
        &place,
        "WITH RECURSIVE n (i) AS (SELECT 1500 UNION ALL SELECT i - 1 FROM n WHERE i > 1)
         INSERT INTO lockhouse_permit_request (external_id, state, created_at)
         SELECT printf('r-%04d', i), 'ACQUIRED', 0 FROM n",
    );
    let torn = store.recount().await.unwrap().torn;
    assert_eq!(torn.len(), 1_000);
    assert_eq!(torn[0], id("r-0001"));
    assert_eq!(torn[999], id("r-1000"));
}

/// P10
#[tokio::test]
async fn a_repair_files_requests_so_that_a_refusal_finds_them() {
    let (place, store) = place_with_requests().await;
    let misfile = "UPDATE lockhouse_permit_request SET only_semaphore_id = 99";
    change(&place, misfile);
    let findings = store.recount().await.unwrap().findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].promise == "P10" && findings[0].can_be_repaired);
    let right = store.semaphore(&name("a")).await.unwrap();
    assert_eq!(store.repair(&name("a")).await.unwrap(), right);
    assert_eq!(store.repair(&name("a")).await.unwrap(), None);
    assert!(promises(&store).await.is_empty());
}
