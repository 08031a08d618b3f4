//! What went wrong elsewhere, where no other rule has it already.

use std::collections::BTreeSet;

use futures_util::future::{join_all, try_join_all};
use lockhouse::{Code, Refusal};

use super::{ask, grant, in_use, name, refusal};
use crate::place::Place;

/// solid_queue #99: three who were the first on a semaphore deadlocked. P6.
pub async fn those_who_are_the_first_at_once_do_not_deadlock(place: &Place) {
    let clients = [
        place.client().await,
        place.client().await,
        place.client().await,
    ];
    for round in 0..10 {
        let names = [format!("a{round}"), format!("b{round}")];
        let firsts = clients.iter().enumerate().map(|(i, client)| {
            // In any order of names.
            let order = [&names[i % 2], &names[1 - i % 2]];
            let (id, permits) = (
                format!("r{round}-{i}"),
                order.map(|name| (name.as_str(), 1)),
            );
            async move {
                for name in order {
                    client.define(name, 3).await?;
                }
                grant(client, &id, &permits).await
            }
        });
        let granted = try_join_all(firsts).await.unwrap();
        let fences: BTreeSet<_> = granted
            .iter()
            .flat_map(|request| request.permits.iter())
            .map(|permit| (permit.semaphore.clone(), permit.fence))
            .collect();
        assert_eq!(fences.len(), 6, "each has fences of its own");
    }
}

/// redisson #4678: all were taken, and setting the capacity once more gave them out again. P1.
pub async fn a_capacity_that_is_set_again_gives_nothing_out_twice(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 2).await.unwrap();
    for id in ["a", "b"] {
        grant(&lockhouse, id, &[("s", 1)]).await.unwrap();
    }
    let full = Refusal::Exhausted(vec![name("s")]);
    for _ in 0..3 {
        lockhouse.define("s", 2).await.unwrap();
        assert_eq!(refusal(grant(&lockhouse, "c", &[("s", 1)]).await), full);
    }
    lockhouse.define("s", 3).await.unwrap();
    grant(&lockhouse, "c", &[("s", 1)]).await.unwrap();
    assert_eq!(refusal(grant(&lockhouse, "d", &[("s", 1)]).await), full);
    assert_eq!(in_use(&lockhouse, "s").await, 3);
}

/// redisson #6343: a release of several with one unknown id among them released the rest, and failed. Here
/// each release is a call of its own, and is told what became of it, also where they share a commit. P3.
pub async fn an_unknown_id_among_others_fails_alone(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 9).await.unwrap();
    for id in ["a", "b", "c", "kept"] {
        grant(&lockhouse, id, &[("s", 2)]).await.unwrap();
    }
    let ids = ["a", "unknown", "b", "a", "c"];
    let released = join_all(ids.map(|id| lockhouse.release(id))).await;
    let mut ended = BTreeSet::new();
    for (id, answer) in ids.into_iter().zip(released) {
        match answer {
            Ok(released) if released.now => assert!(ended.insert(id), "{id} ended twice"),
            Ok(released) => assert_eq!((id, released.now), ("a", false)),
            Err(error) => assert_eq!((id, error.code()), ("unknown", Code::UnknownRequest)),
        }
    }
    assert_eq!(ended, ["a", "b", "c"].into());
    assert_eq!(in_use(&lockhouse, "s").await, 2);
    // Who is told "unknown" has left nothing behind under that id.
    lockhouse
        .acquire(ask("unknown", &[("s", 7)]), super::SOON)
        .await
        .unwrap();
}
