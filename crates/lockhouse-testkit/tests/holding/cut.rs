//! P8: a holder that is cut off knows its hold to be lost before another caller is granted the permit. A holder that is cut
//! off only for a moment goes on.

use std::time::{Duration, Instant};

use futures_util::future::join;
use lockhouse::{Lockhouse, Lost};
use lockhouse_testkit::link::{Failure, Link};
use lockhouse_testkit::place::{self, Place};
use tokio::time::sleep;

use crate::{SOON, ask, renewed};

const TTL: Duration = Duration::from_secs(2);

/// As documented, a hold counts as lost this long before the store can end it.
const MARGIN: Duration = Duration::from_millis(200);

/// How much of the margin a busy machine may take before the holder has noticed.
const BUSY: Duration = Duration::from_millis(100);

macro_rules! behind_a_link {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            behind_a_link!(@ $test: server, mysql, mariadb, postgres);
        }
    )+};
    (@ $test:ident: $($store:ident),+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $store() {
            if let Some(place) = super::place::$store().await {
                super::$test(&place).await;
                place.clear().await;
            }
        }
    )+};
}

behind_a_link!(
    a_holder_that_hears_nothing_knows_before_another_is_granted,
    a_holder_that_is_refused_knows_before_another_is_granted,
    a_hold_outlives_a_link_that_fails_for_a_moment,
    a_hold_outlives_its_connection,
);

/// solid_queue #689: a hold expired while its job ran, and the job did not learn it.
async fn a_holder_that_hears_nothing_knows_before_another_is_granted(place: &Place) {
    holder_knows_in_time(place, Failure::Silent).await;
}

async fn a_holder_that_is_refused_knows_before_another_is_granted(place: &Place) {
    holder_knows_in_time(place, Failure::Cut).await;
}

async fn holder_knows_in_time(place: &Place, failure: Failure) {
    let (link, holder, other) = linked(place).await;
    let held = holder.request_with_id("held").permits("s", 1).ttl(TTL);
    let permit = held.acquire().await.unwrap();
    renewed(&other, "held").await;
    link.fail(failure);
    let lost = async { (permit.lost().await, Instant::now()) };
    let granted = async {
        other.acquire(ask("next"), SOON).await.unwrap();
        Instant::now()
    };
    let ((why, lost_at), granted_at) = join(lost, granted).await;
    assert_eq!(why, Lost::NotRenewed);
    let held_until = permit.held_until().unwrap();
    let margin = granted_at.saturating_duration_since(held_until);
    assert!(margin >= MARGIN, "{margin:?}");
    let noticed = granted_at.saturating_duration_since(lost_at);
    assert!(noticed >= MARGIN - BUSY, "noticed {noticed:?} before");
    permit.forget();
}

async fn a_hold_outlives_a_link_that_fails_for_a_moment(place: &Place) {
    let (link, holder, other) = linked(place).await;
    let held = holder.request_with_id("held").permits("s", 1).ttl(3 * TTL);
    let permit = held.acquire().await.unwrap();
    for failure in [Failure::Silent, Failure::Cut] {
        link.fail(failure);
        sleep(TTL).await;
        link.mend();
        renewed(&other, "held").await;
    }
    assert!(!permit.is_lost());
    assert!(permit.release().await.unwrap().now);
}

/// Connections fall silent and are not closed. A client of a database notices that after 9 s, so a brief hold would be lost
/// there.
async fn a_hold_outlives_its_connection(place: &Place) {
    let (link, holder, other) = linked(place).await;
    let is_server = place.url().starts_with("http");
    let ttl = Duration::from_secs(if is_server { 6 } else { 20 });
    let held = holder.request_with_id("held").permits("s", 1).ttl(ttl);
    let permit = held.acquire().await.unwrap();
    link.forget_connections();
    renewed(&other, "held").await;
    assert!(!permit.is_lost());
    assert!(permit.release().await.unwrap().now);
}

/// A link to a place with a semaphore `s` of one permit, a client through the link, and a direct client.
async fn linked(place: &Place) -> (Link, Lockhouse, Lockhouse) {
    let other = place.client().await;
    other.define("s", 1).await.unwrap();
    let link = Link::to(place.url()).await;
    let holder = Lockhouse::connect(link.before(place.url())).await.unwrap();
    (link, holder, other)
}
