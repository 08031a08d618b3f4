//! P13: a caller's transaction that stays open delays only calls that need its request.

use std::time::Duration;

use lockhouse::{Lockhouse, Upkeep};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::{Instant, sleep, timeout};

use crate::{Caller, LONG, SOON, granted, timed};

on_each_store! { row locks:
    a_transaction_open_for_12_s_delays_nobody_else,
}

const OPEN_FOR: Duration = Duration::from_secs(12);
const LONGEST_CALL: Duration = Duration::from_millis(1_500);
/// Shorter than the transaction, so the requests become due while it has them locked.
const TTL: Duration = Duration::from_secs(5);

async fn a_transaction_open_for_12_s_delays_nobody_else(place: Place) {
    let engines = [place.client().await, place.client().await];
    engines[0].define("s", 6).await.unwrap();
    engines[0].define("full", 1).await.unwrap();
    let (mut held, mut finished) = (Caller::open(&place).await, Caller::open(&place).await);
    engines[0].heartbeat("w", LONG).await.unwrap();
    for id in ["held", "finished"] {
        let kept = engines[0].request_with_id(id).permits("s", 1).owner("w");
        kept.ttl(LONG).acquire().await.unwrap().forget();
    }
    granted(&engines[0], "s", "beside", LONG).await;
    granted(&engines[0], "full", "full", LONG).await;
    let usual = longest_call(&engines, Duration::from_secs(1)).await;
    held.begin().await;
    finished.begin().await;
    engines[0].renew("held", Some(TTL)).await.unwrap();
    assert!(held.held("held").await);
    engines[0].renew("finished", Some(TTL)).await.unwrap();
    assert!(finished.finish("finished").await);
    let longest = longest_call(&engines, OPEN_FOR).await;
    println!("the longest call took {longest:?}, and {usual:?} without the transactions");
    // On a busy machine all calls take longer.
    assert!(
        longest.0 <= LONGEST_CALL + usual.0,
        "{longest:?}, {usual:?} without"
    );
    held.commit().await;
    finished.commit().await;
    // Only the neighbour still holds one of the six permits.
    let all = engines[1].request().permits("s", 5);
    let all = timeout(SOON, all.acquire()).await.unwrap().unwrap();
    all.release().await.unwrap();
    assert!(engines[0].verify().await.unwrap().is_empty());
    drop(engines);
    place.clear().await;
}

/// Acquires, renews, releases and is refused for `time`, while sweeps go on. Returns the longest call. No call may fail. A
/// sweep needs the locked rows of due requests, so it may take longer. It delays no other call.
async fn longest_call(engines: &[Lockhouse], time: Duration) -> (Duration, &'static str) {
    let until = Instant::now() + time;
    let (longest, swept) = tokio::join!(call_until(engines, until), sweep_until(engines, until));
    println!("the longest sweep took {swept:?}");
    longest
}

async fn call_until(engines: &[Lockhouse], until: Instant) -> (Duration, &'static str) {
    let mut longest = (Duration::ZERO, "nothing");
    for engine in engines.iter().cycle() {
        if Instant::now() >= until {
            break;
        }
        let mut note = |what, took| longest = longest.max((took, what));
        let ask = engine.request().permits("s", 1).ttl(LONG);
        let (permit, took) = timed(ask.try_acquire()).await;
        note("acquire", took);
        let permit = permit.unwrap();
        let (renewed, took) = timed(engine.renew(permit.external_id(), None)).await;
        note("renewal", took);
        renewed.unwrap();
        let (renewed, took) = timed(engine.renew("beside", None)).await;
        note("renewal beside it", took);
        renewed.unwrap();
        let (beat, took) = timed(engine.heartbeat("w", LONG)).await;
        note("heartbeat of its owner", took);
        beat.unwrap();
        let (refused, took) = timed(engine.semaphore("full").try_acquire()).await;
        note("refusal elsewhere", took);
        refused.unwrap_err();
        let (released, took) = timed(permit.release()).await;
        note("release", took);
        assert!(released.unwrap().now);
        sleep(Duration::from_millis(10)).await;
    }
    longest
}

async fn sweep_until(engines: &[Lockhouse], until: Instant) -> Duration {
    let mut longest = Duration::ZERO;
    while Instant::now() < until {
        let (swept, took) = timed(engines[0].sweep(&Upkeep::default())).await;
        swept.unwrap();
        longest = longest.max(took);
        sleep(Duration::from_millis(500)).await;
    }
    longest
}
