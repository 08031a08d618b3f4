//! Calls that have to insert a row into a locked gap.

use std::time::{Duration, Instant};

use futures_util::future::{FutureExt as _, join_all};
use lockhouse::{Code, Error, Lockhouse};
use lockhouse_testkit::place::Place;
use tokio::time::sleep;

use crate::rows::{Rows, lock, set_up};

/// The error tells the operator what to look for, without the database's text. PostgreSQL locks no gaps.
pub(crate) async fn calls_in_locked_gaps_are_refused_and_succeed_once_they_are_free(place: Place) {
    let lockhouse = place.client().await;
    set_up(&lockhouse).await;
    let mut locks = Vec::new();
    for rows in [Rows::Gaps, Rows::NameGap, Rows::OwnerGap, Rows::PatternGap] {
        locks.push(lock(&place, rows, 0).await);
    }
    let began = Instant::now();
    let ask = |id: &str, name| lockhouse.request_with_id(id).permits(name, 1);
    let waits = |id, name| {
        let ask = ask(id, name).wait(Duration::from_secs(60));
        async move {
            let permit = ask.acquire().await;
            (permit, began.elapsed())
        }
    };
    let (refused, waited, beside) = tokio::join!(
        call(&lockhouse, 0),
        join_all([waits("gap-0-d", "locked-0"), waits("waits", "new/c")]),
        async {
            let permit = ask("gap-1-c", "locked-0").try_acquire().await;
            let took = began.elapsed();
            // The first calls have given up by this time.
            sleep(Duration::from_secs(12)).await;
            for lock in &mut locks {
                lock.run("ROLLBACK").await;
            }
            (permit, took)
        },
    );
    beside.0.unwrap().release().await.unwrap();
    assert!(beside.1 < Duration::from_secs(3), "{:?}", beside.1);
    let locks_gaps = !place.url().starts_with("postgres");
    for (permit, after) in waited {
        permit.unwrap().release().await.unwrap();
        assert!(!locks_gaps || after > Duration::from_secs(12), "{after:?}");
        assert!(after < Duration::from_secs(15), "{after:?}");
    }
    for (what, answer) in refused {
        if !locks_gaps {
            answer.unwrap();
            continue;
        }
        let refused = answer.expect_err(what);
        assert_eq!(refused.code(), Code::StoreUnavailable, "{what}");
        let told = refused.to_string();
        let is_plain = told.contains("another transaction of the database");
        assert!(is_plain && !told.contains("1205"), "{what}: {told}");
    }
    for (what, answer) in call(&lockhouse, 1).await {
        assert!(answer.is_ok(), "{what}: {answer:?}");
    }
    drop(lockhouse);
    place.clear().await;
}

/// At least one call for each gap.
async fn call(lockhouse: &Lockhouse, round: u32) -> Vec<(&'static str, Result<(), Error>)> {
    let acquire = |id: &str, name| {
        let ask = lockhouse.request_with_id(format!("{id}-{round}"));
        let ask = ask.permits(name, 1);
        async move {
            ask.try_acquire().await?.release().await?;
            Ok::<_, Error>(())
        }
    };
    join_all([
        async { ("ask", acquire("gap-0-c", "locked-0").await) }.boxed(),
        async { ("first use", acquire("first", "new/b").await) }.boxed(),
        async {
            let defined = lockhouse.define("new/defined", 1).await;
            ("definition", defined.map(|_| ()))
        }
        .boxed(),
        async {
            let beat = lockhouse.heartbeat("owner-f", Duration::from_secs(60));
            ("heartbeat", beat.await.map(|_| ()))
        }
        .boxed(),
        async {
            let template = lockhouse.template("new/new/*", 1).await;
            ("template", template.map(|_| ()))
        }
        .boxed(),
    ])
    .await
}
