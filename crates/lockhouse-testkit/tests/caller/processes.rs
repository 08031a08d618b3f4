//! Callers in separate processes, which are killed, or stopped until their TTL has passed.

use std::pin::pin;
use std::time::Duration;

use lockhouse::EndReason;
use lockhouse_testkit::database::Database;
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use lockhouse_testkit::stoppable::Stoppable;
use tokio::time::timeout;

use crate::{Caller, LONG, SOON, TTL, granted};

on_each_store! { sql:
    a_killed_callers_payment_is_undone_and_its_request_is_held,
    a_caller_that_was_stopped_past_its_ttl_commits_before_anybody_is_granted,
    after_a_caller_is_killed_past_its_ttl_the_next_waiter_is_granted,
}

const VERBS: [&str; 2] = ["held", "finish"];

/// A process with an open transaction that has paid and run a statement.
async fn teller(place: &Place, verb: &str, id: &str) -> Stoppable {
    let arguments = ["pay", place.url(), verb, id];
    let mut teller = Stoppable::start(env!("CARGO_BIN_EXE_holder"), &arguments);
    assert_eq!(teller.line().await, "done");
    teller
}

async fn payments(place: &Place, id: &str) -> i64 {
    let mut database = Database::open(place.url()).await;
    let paid = format!("SELECT COUNT(*) FROM payment WHERE id='{id}'");
    database.number(&paid).await
}

async fn set_up(place: &Place) -> lockhouse::Lockhouse {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let mut database = Database::open(place.url()).await;
    database.run("CREATE TABLE payment (id VARCHAR(64))").await;
    lockhouse
}

async fn a_killed_callers_payment_is_undone_and_its_request_is_held(place: Place) {
    let lockhouse = set_up(&place).await;
    for verb in VERBS {
        let before = granted(&lockhouse, "s", verb, LONG).await;
        let teller = teller(&place, verb, verb).await;
        teller.kill().await;
        // The row is locked until the database has seen the connection break.
        let mut caller = Caller::open(&place).await;
        let held = timeout(SOON, caller.is_held(verb)).await;
        assert!(held.expect("the locks are gone"), "{verb}");
        assert_eq!(payments(&place, verb).await, 0, "{verb}");
        assert_eq!(lockhouse.find(verb).await.unwrap(), before);
        lockhouse.semaphore("s").try_acquire().await.unwrap_err();
        assert!(lockhouse.release(verb).await.unwrap().now, "{verb}");
    }
    assert!(lockhouse.verify().await.unwrap().is_empty());
    drop(lockhouse);
    place.clear().await;
}

async fn a_caller_that_was_stopped_past_its_ttl_commits_before_anybody_is_granted(place: Place) {
    let lockhouse = set_up(&place).await;
    for verb in VERBS {
        let before = granted(&lockhouse, "s", verb, BRIEF).await;
        let mut teller = teller(&place, verb, verb).await;
        teller.stop().await;
        let semaphore = lockhouse.semaphore("s");
        let mut next = pin!(semaphore.acquire());
        timeout(BRIEF + TTL, &mut next).await.unwrap_err();
        assert_eq!(payments(&place, verb).await, 0, "{verb}");
        teller.enter().await;
        teller.go_on().await;
        assert_eq!(teller.line().await, "committed");
        let next = timeout(SOON, next).await.unwrap().unwrap();
        assert!(next.fence("s") > before.permits[0].fence);
        assert_eq!(payments(&place, verb).await, 1, "{verb}");
        let reason = match verb {
            "held" => EndReason::Expired,
            _ => EndReason::Released,
        };
        let ended = lockhouse.find(verb).await.unwrap();
        assert_eq!(ended.end_reason(), Some(reason), "{verb}");
        next.release().await.unwrap();
    }
    drop(lockhouse);
    place.clear().await;
}

async fn after_a_caller_is_killed_past_its_ttl_the_next_waiter_is_granted(place: Place) {
    let lockhouse = set_up(&place).await;
    for verb in VERBS {
        granted(&lockhouse, "s", verb, BRIEF).await;
        let teller = teller(&place, verb, verb).await;
        teller.stop().await;
        let semaphore = lockhouse.semaphore("s");
        let mut next = pin!(semaphore.acquire());
        timeout(BRIEF + TTL, &mut next).await.unwrap_err();
        teller.kill().await;
        let next = timeout(SOON, next).await.unwrap().unwrap();
        assert_eq!(payments(&place, verb).await, 0, "{verb}");
        let ended = lockhouse.find(verb).await.unwrap();
        assert_eq!(ended.end_reason(), Some(EndReason::Expired), "{verb}");
        next.release().await.unwrap();
    }
    drop(lockhouse);
    place.clear().await;
}

/// Long enough for a process to start and ask on a busy machine.
const BRIEF: Duration = Duration::from_secs(4);
