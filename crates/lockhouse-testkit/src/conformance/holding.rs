//! Holds that last longer than a call, and holders that come back too late. Each rule is from a defect of another lock
//! service.

use std::time::{Duration, Instant};

use lockhouse::{Code, EndReason, Lost, Refusal};

use super::steps::{SOON, ask, eventually, grant, in_use, refusal, with_ttl};
use crate::place::Place;

/// As in solid_queue 689: the hold expired while the job ran.
pub async fn a_job_longer_than_its_ttl_keeps_its_hold(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    let ttl = Duration::from_secs(4);
    let job = one.request_with_id("job").permits("s", 1).ttl(ttl);
    let permit = job.acquire().await.unwrap();
    let next = ask("next", &[("s", 1)]);
    refusal(two.acquire(next, 2 * ttl).await);
    assert!(!permit.is_lost());
    assert!(permit.release().await.unwrap().now);
}

/// As in node-redlock 296: a lock was returned that had already expired. Here a permit is granted long after its caller
/// asked, and its TTL begins at the grant.
pub async fn a_permit_that_was_waited_for_longer_than_its_ttl_is_fresh(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    grant(&lockhouse, "before", &[("s", 1)]).await.unwrap();
    let ttl = Duration::from_secs(1);
    let waiting = tokio::spawn({
        let ask = lockhouse.request_with_id("r").permits("s", 1).ttl(ttl);
        async move { ask.acquire().await }
    });
    tokio::time::sleep(2 * ttl).await;
    lockhouse.release("before").await.unwrap();
    let permit = waiting.await.unwrap().unwrap();
    assert!(!permit.is_lost());
    assert!(permit.held_until().unwrap() > Instant::now());
    assert!(lockhouse.find("r").await.unwrap().is_live());
    assert!(permit.release().await.unwrap().now);
}

/// As in solid_queue 761: a worker that had been given up finished and released again, so a limit of 1 ran 11 jobs. And as
/// in redisson 7329 and prefect 21794: a permit that expired and was released was counted twice.
pub async fn a_holder_that_was_given_up_releases_nothing_when_it_comes_back(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let late = with_ttl(ask("late", &[("s", 1)]), Duration::from_millis(100));
    // If the answer takes longer than the TTL, it says that the request has expired.
    let _ = lockhouse.acquire(late, Duration::ZERO).await;
    assert!(lockhouse.find("late").await.is_ok());
    lockhouse
        .acquire(ask("next", &[("s", 1)]), SOON)
        .await
        .unwrap();
    for _ in 0..11 {
        let released = lockhouse.release("late").await.unwrap();
        assert!(!released.now);
        assert_eq!(released.request.end_reason(), Some(EndReason::Expired));
        let third = ask("third", &[("s", 1)]);
        refusal(lockhouse.acquire(third, Duration::ZERO).await);
    }
    assert_eq!(in_use(&lockhouse, "s").await, 1);
}

/// As in etcd 22082: a retried unlock deleted a newer lock.
pub async fn a_release_that_is_retried_ends_no_newer_hold(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    grant(&one, "old", &[("s", 1)]).await.unwrap();
    assert!(one.release("old").await.unwrap().now);
    let new = two.mutex("s").lock().await.unwrap();
    assert!(!one.release("old").await.unwrap().now);
    assert_eq!(in_use(&one, "s").await, 1);
    assert!(new.release().await.unwrap().now, "it was held until now");
}

/// As in consul 4902: the lock was lost, yet locking again said "already held".
pub async fn a_caller_that_lost_its_hold_gets_request_ended(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 1).await.unwrap();
    let mine = || {
        one.request_with_id("mine")
            .permits("s", 1)
            .ttl(Duration::from_secs(2))
    };
    let permit = mine().acquire().await.unwrap();
    two.force_release("mine", None).await.unwrap();
    let other = two.semaphore("s").acquire().await.unwrap();
    let lost = tokio::time::timeout(SOON, permit.lost()).await.unwrap();
    assert_eq!(lost, Lost::Ended(EndReason::Forced));

    let again = refusal(mine().acquire().await);
    let reason = EndReason::Forced;
    let external_id = permit.external_id().clone();
    let ended = Refusal::RequestEnded {
        external_id,
        reason,
    };
    assert_eq!(again, ended);
    let mutex = one.mutex("s");
    let full = refusal(mutex.try_lock().await);
    assert_eq!(full.code(), Code::Exhausted);
    other.release().await.unwrap();
    let later = mutex.lock().await.unwrap();
    assert!(later.fence("s") > permit.fence("s"));
}

/// As in argo-workflows 15609 and 10286: after a restart the first holder was forgotten.
pub async fn a_client_that_starts_later_finds_the_holder(place: &Place) {
    let before = place.client().await;
    before.define("s", 1).await.unwrap();
    grant(&before, "first", &[("s", 1)]).await.unwrap();
    drop(before);
    let after = place.client().await;
    let full = refusal(after.semaphore("s").try_acquire().await);
    assert_eq!(full.code(), Code::Exhausted);
    assert!(after.release("first").await.unwrap().now);
    after
        .mutex("s")
        .try_lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// P10: when `close` returns, the dropped permits are released.
pub async fn a_client_that_closes_leaves_nothing_dropped_behind(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    one.define("s", 30).await.unwrap();
    for _ in 0..30 {
        drop(one.semaphore("s").acquire_owned().await.unwrap());
    }
    assert_eq!(one.close().await, 0);
    assert_eq!(in_use(&two, "s").await, 0);
}

/// P8: another holder with the same id relies on the longer TTL.
pub async fn a_repeated_ask_with_a_shorter_ttl_shortens_nothing(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let ask = |ttl| {
        lockhouse
            .request_with_id("r")
            .permits("s", 1)
            .ttl(Duration::from_secs(ttl))
    };
    let first = ask(600).acquire().await.unwrap();
    ask(1).acquire().await.unwrap().forget();
    let left = |request: lockhouse::Request| {
        let expires_at = request.expires_at.unwrap();
        expires_at
            .duration_since(lockhouse::Timestamp::now())
            .as_secs()
    };
    assert!(left(lockhouse.find("r").await.unwrap()) > 500);
    ask(1_200).acquire().await.unwrap().forget();
    assert!(left(lockhouse.find("r").await.unwrap()) > 1_000);
    assert!(first.release().await.unwrap().now);
}

/// Permits that expire can be granted again: a rate limit is a permit that nobody releases.
pub async fn forgotten_permits_return_with_their_ttl(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    let brief = || {
        lockhouse
            .request()
            .permits("s", 1)
            .ttl(Duration::from_secs(1))
    };
    let first = brief().acquire().await.unwrap().forget();
    brief().acquire().await.unwrap().forget();
    let began = Instant::now();
    refusal(brief().try_acquire().await);
    brief().acquire().await.unwrap().forget();
    assert!(began.elapsed() > Duration::from_millis(500));
    eventually("the first has ended", async || {
        !lockhouse.find(&first).await.unwrap().is_live()
    })
    .await;
}
