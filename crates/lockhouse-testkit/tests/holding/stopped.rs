//! P8: a process that was stopped finds its hold lost at the first look.

use std::time::Duration;

use lockhouse::{Lockhouse, Timestamp};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use lockhouse_testkit::stoppable::Stoppable;
use tokio::time::sleep;

use crate::{SOON, ask};

on_each_store!(
    the_first_look_after_a_stop_past_the_ttl_says_lost,
    a_stop_within_the_margin_ends_with_lost_before_anybody_is_granted,
);

const TTL: Duration = Duration::from_secs(4);

/// As documented, a hold counts as lost this long before the store can end it.
const MARGIN: Duration = Duration::from_millis(400);

/// A process that holds the only permit of `s`, and looks at it when it reads a line. It has just
/// renewed the hold: a renewal whose answer is still to come when the process is stopped may be
/// retried when it continues.
async fn holder(url: &str, lockhouse: &Lockhouse) -> Stoppable {
    lockhouse.define("s", 1).await.unwrap();
    let ttl_ms = TTL.as_millis().to_string();
    let arguments = [url, "s", "held", &ttl_ms];
    let mut holder = Stoppable::start(env!("CARGO_BIN_EXE_holder"), &arguments);
    assert_eq!(holder.line().await, "held");
    assert_eq!(holder.line().await, "renewed");
    holder
}

/// The stopped holder learns it before it uses a resource that another holder has now.
async fn the_first_look_after_a_stop_past_the_ttl_says_lost(place: Place) {
    let other = place.client().await;
    let mut holder = holder(place.url(), &other).await;
    holder.enter().await;
    assert_eq!(holder.line().await, "held");

    holder.stop().await;
    other.acquire(ask("next"), SOON).await.unwrap();
    holder.enter().await;
    holder.go_on().await;
    assert_eq!(holder.line().await, "lost");
    assert!(other.find("next").await.unwrap().is_live());
    place.clear().await;
}

/// The margin also holds after a stop: the holder tries no renewal in the margin, and no other caller is granted the permit
/// before the holder knows.
async fn a_stop_within_the_margin_ends_with_lost_before_anybody_is_granted(place: Place) {
    let other = place.client().await;
    let mut holder = holder(place.url(), &other).await;
    holder.stop().await;
    let expires_at = other.find("held").await.unwrap().expires_at.unwrap();
    let lost_at = expires_at - MARGIN;
    while Timestamp::now() < lost_at {
        sleep(Duration::from_millis(1)).await;
    }
    holder.enter().await;
    holder.go_on().await;
    assert_eq!(holder.line().await, "lost");
    let known_at = Timestamp::now();
    let (request, _) = other.acquire(ask("next"), SOON).await.unwrap();
    let margin = request.created_at.duration_since(known_at);
    assert!(
        margin.as_millis() > 0,
        "the holder knew it only {margin:?} before"
    );
    let held = other.find("held").await.unwrap();
    assert_eq!(held.expires_at, Some(expires_at), "it was not renewed");
    place.clear().await;
}
