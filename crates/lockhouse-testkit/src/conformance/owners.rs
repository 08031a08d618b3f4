//! Owners' sessions: one heartbeat keeps all, silence and goodbye free all.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::EndReason;

use super::{SOON, ask, eventually, in_use, owned_by};
use crate::place::Place;

const MINUTE: Duration = Duration::from_secs(60);

/// P10: whoever wants the permits of a silent owner has them.
pub async fn silence_frees_all_that_an_owner_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 3).await.unwrap();
    let session = lockhouse
        .heartbeat("job", Duration::from_millis(100))
        .await
        .unwrap();
    assert_eq!(session.ttl.as_ms(), 100);
    for id in ["a", "b", "c"] {
        let held = owned_by(ask(id, &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    }
    lockhouse
        .acquire(ask("next", &[("s", 3)]), SOON)
        .await
        .unwrap();
    for id in ["a", "b", "c"] {
        let ended = lockhouse.find(id).await.unwrap();
        assert_eq!(ended.end_reason(), Some(EndReason::OwnerDead));
    }
    assert_eq!(in_use(&lockhouse, "s").await, 3);
}

/// One heartbeat, whatever their number; and another owner's silence is none of its business.
pub async fn a_heartbeat_keeps_all_that_an_owner_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 20).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    lockhouse
        .heartbeat("other", Duration::from_millis(1))
        .await
        .unwrap();
    let grants = (0..20).map(|i| {
        let held = owned_by(ask(&format!("r{i}"), &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO)
    });
    join_all(grants).await.into_iter().for_each(|granted| {
        granted.unwrap();
    });
    let wait = Duration::from_millis(300);
    lockhouse
        .acquire(ask("next", &[("s", 1)]), wait)
        .await
        .unwrap_err();
    let pushed = lockhouse.heartbeat("job", 2 * MINUTE).await.unwrap();
    assert_eq!(pushed.ttl.as_ms(), 120_000);
    assert_eq!(in_use(&lockhouse, "s").await, 20);
}

/// Its holds are released, and its name may come back.
pub async fn a_goodbye_frees_all_that_an_owner_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 5).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    for (id, owner) in [("a", "job"), ("b", "job"), ("c", "Job")] {
        let held = owned_by(ask(id, &[("s", 1)]), owner);
        lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    }
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 2);
    assert_eq!(in_use(&lockhouse, "s").await, 1, "Job is another than job");
    let ended = lockhouse.find("a").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Released));
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 0);
    assert_eq!(lockhouse.goodbye("nobody").await.unwrap(), 0);
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    let back = owned_by(ask("d", &[("s", 4)]), "job");
    lockhouse.acquire(back, Duration::ZERO).await.unwrap();
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 1);
}

/// Age is no reason to end what a session keeps, and it hides nothing behind it from the sweep.
/// A server sweeps by itself.
pub async fn what_a_session_keeps_is_never_stale(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 701).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    let kept = (0..700).map(|i| {
        let held = owned_by(ask(&format!("kept-{i}"), &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO)
    });
    join_all(kept).await.into_iter().for_each(|granted| {
        granted.unwrap();
    });
    let old = owned_by(ask("old", &[("s", 1)]), "other");
    lockhouse.acquire(old, Duration::ZERO).await.unwrap();
    let upkeep = lockhouse::Upkeep {
        stale_after: Duration::from_millis(1),
        ..Default::default()
    };
    let swept = async || lockhouse.sweep(&upkeep).await.map(|swept| swept.stale);
    let Ok(mut stale) = swept().await else { return };
    eventually("the other is stale", async || {
        stale += swept().await.unwrap();
        stale > 0
    })
    .await;
    assert_eq!(stale, 1);
    let ended = lockhouse.find("old").await.unwrap();
    assert_eq!(ended.end_reason(), Some(EndReason::Stale));
    assert_eq!(in_use(&lockhouse, "s").await, 700);
}

/// Sessions are for those who have one: an owner without is never silent.
pub async fn an_owner_without_a_session_keeps_what_it_holds(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let held = owned_by(ask("a", &[("s", 1)]), "job");
    lockhouse.acquire(held, Duration::ZERO).await.unwrap();
    let wait = Duration::from_millis(300);
    lockhouse
        .acquire(ask("next", &[("s", 1)]), wait)
        .await
        .unwrap_err();
    assert!(lockhouse.find("a").await.unwrap().is_live());
}

/// More than are ended in one piece.
pub async fn an_owner_of_many_is_freed_in_pieces(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1200).await.unwrap();
    lockhouse.heartbeat("job", MINUTE).await.unwrap();
    let grants = (0..1200).map(|i| {
        let held = owned_by(ask(&format!("r{i}"), &[("s", 1)]), "job");
        lockhouse.acquire(held, Duration::ZERO)
    });
    join_all(grants).await.into_iter().for_each(|granted| {
        granted.unwrap();
    });
    lockhouse
        .heartbeat("job", Duration::from_millis(1))
        .await
        .unwrap();
    lockhouse
        .acquire(ask("next", &[("s", 1200)]), 2 * SOON)
        .await
        .unwrap();
    eventually("nothing else is held", async || {
        in_use(&lockhouse, "s").await == 1200
    })
    .await;
}
