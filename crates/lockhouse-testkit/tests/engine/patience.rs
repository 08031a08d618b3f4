//! How long a call tries, by a clock that jumps ahead when no task can run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lockhouse::{Ask, Code, Count, ExternalId, SemaphoreName, Ttl};
use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{Command, LineTime, Timestamp};
use lockhouse_stores::Memory;
use tokio::time::Instant;

use crate::hooked::{hooked, losing, slow_to_look};

/// Defines a semaphore on a store that has `trouble` for `lasts`. Returns whether it succeeded, and after how long.
async fn tried(trouble: Kind, lasts: Duration) -> (bool, Duration) {
    let began = Instant::now();
    let lockhouse = hooked(move |_| match began.elapsed() < lasts {
        true => Err(Error::new(trouble, "the store has trouble")),
        false => Ok(Vec::new()),
    });
    let done = lockhouse.define("s", 1).await;
    (done.is_ok(), began.elapsed())
}

/// Connections come free one by one, and a caller that waits for a connection harms nobody.
#[tokio::test(start_paused = true)]
async fn a_crowded_store_is_tried_for_as_long_as_a_call_may_take() {
    let (done, after) = tried(Kind::Crowded, Duration::from_secs(7)).await;
    assert!(done && after < Duration::from_secs(9), "{after:?}");
    let (done, after) = tried(Kind::Crowded, Duration::MAX).await;
    assert!(!done && after < Duration::from_secs(10), "{after:?}");
    // The engine does not begin a pause, of at most 0.4 s, that would end too late.
    assert!(after > Duration::from_millis(9_000), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_out_is_tried_for_a_moment() {
    for trouble in [Kind::Unavailable, Kind::Conflict, Kind::Unknown] {
        let (done, after) = tried(trouble, Duration::MAX).await;
        assert!(!done && after < Duration::from_secs(3), "{after:?}");
    }
}

/// A call that waits for room also waits for a store that others keep busy. Once its wait is over, it is answered
/// within the time of one more call.
#[tokio::test(start_paused = true)]
async fn a_waiting_ask_goes_on_while_the_store_is_busy() {
    for trouble in [Kind::Conflict, Kind::Locked, Kind::Crowded] {
        let began = Instant::now();
        let lockhouse = hooked(move |batch| {
            let asks = batch.commands.iter().any(|command| command.ask().is_some());
            match asks && began.elapsed() < Duration::from_secs(60) {
                true => Err(Error::new(trouble, "others are busy")),
                false => Ok(Vec::new()),
            }
        });
        lockhouse.define("s", 1).await.unwrap();
        let ask = || lockhouse.request().permits("s", 1);
        let short = ask().wait(Duration::from_millis(13)).acquire().await;
        assert_eq!(short.unwrap_err().code(), Code::StoreUnavailable);
        let after = began.elapsed();
        assert!(after < Duration::from_secs(10), "{trouble:?} {after:?}");
        let asked = Instant::now();
        let long = ask().wait(Duration::from_secs(20)).acquire().await;
        assert_eq!(long.unwrap_err().code(), Code::StoreUnavailable);
        let after = asked.elapsed();
        assert!((20..30).contains(&after.as_secs()), "{trouble:?} {after:?}");
        ask().wait(Duration::MAX).acquire().await.unwrap().forget();
        assert!(began.elapsed() < Duration::from_secs(65), "{trouble:?}");
    }
}

/// How long a command says that its first caller has waited.
fn says_waited(command: &Command) -> Option<Duration> {
    let now = LineTime::default() + Duration::from_secs(3_600);
    match command {
        Command::Acquire { turn, .. } => turn.waits.then_some(turn.waited),
        Command::Stand { stand, .. } => Some(now.since(now.place(stand.standing?.seniority))),
        _ => None,
    }
}

/// P11: without this, the process's entry in the line would have a place that is too late by the time of the trouble.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_tried_again_says_how_long_its_callers_have_waited_by_then() {
    const LASTS: Duration = Duration::from_secs(3);
    let kinds = [
        Kind::Conflict,
        Kind::Locked,
        Kind::Crowded,
        Kind::Unavailable,
    ];
    // The trouble begins before the caller is first refused, or after that.
    for (trouble, after_ms) in kinds.into_iter().flat_map(|kind| [(kind, 0), (kind, 10)]) {
        let began = Instant::now();
        let (tries, most_missing_ms) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        let (tried, missing) = (Arc::clone(&tries), Arc::clone(&most_missing_ms));
        let lockhouse = hooked(move |batch| {
            let Some(waited) = batch.commands.iter().filter_map(says_waited).max() else {
                return Ok(Vec::new());
            };
            let at = began.elapsed();
            let too_short = u64::try_from(at.saturating_sub(waited).as_millis()).unwrap();
            missing.fetch_max(too_short, Ordering::Relaxed);
            match (Duration::from_millis(after_ms)..LASTS).contains(&at) {
                true => {
                    tried.fetch_add(1, Ordering::Relaxed);
                    Err(Error::new(trouble, "the store has trouble"))
                }
                false => Ok(Vec::new()),
            }
        });
        lockhouse.define("s", 1).await.unwrap();
        let held = lockhouse.request().permits("s", 1).try_acquire().await;
        let waits = lockhouse.request().permits("s", 1);
        let ended = waits.wait(Duration::from_secs(5)).acquire().await;
        ended.unwrap_err();
        drop(held);
        let (tries, missing) = (
            tries.load(Ordering::Relaxed),
            most_missing_ms.load(Ordering::Relaxed),
        );
        assert!(tries > 1, "{trouble:?}, after {after_ms} ms: {tries} tries");
        assert!(
            missing < 100,
            "{trouble:?}, after {after_ms} ms: the place lacks {missing} ms"
        );
    }
}

/// P9: a slow grant is not reported as expired before it has. The decision comes after at least 210 ms, and the grant lasts
/// for 200 ms from then on.
#[tokio::test]
async fn a_grant_that_took_longer_than_it_lasts_is_what_the_store_says() {
    let troubles = AtomicU32::new(0);
    let lockhouse = hooked(move |batch| {
        let asks = batch.commands.iter().any(|command| command.ask().is_some());
        match asks && troubles.fetch_add(1, Ordering::Relaxed) < 3 {
            true => Err(Error::new(Kind::Conflict, "somebody was in the way")),
            false => Ok(Vec::new()),
        }
    });
    lockhouse.define("s", 1).await.unwrap();
    let ask = lockhouse.request_with_id("late").permits("s", 1);
    let permit = ask.ttl(Duration::from_millis(200)).try_acquire().await;
    let permit = permit.expect("it is held, as its time began with the decision");
    assert!(lockhouse.find("late").await.unwrap().is_live());
    permit.forget();
}

/// P8: while the engine asks the store again about late grants, another grant of their batch may expire.
#[tokio::test]
async fn a_grant_that_expired_while_others_were_asked_for_again_is_answered_as_expired() {
    let slow = AtomicU32::new(0);
    let lockhouse = hooked(move |batch| {
        let asks = batch.commands.iter().filter(|it| it.ask().is_some());
        // The three asks together are slow, then the repeats of the short and of the middle one. Later batches are not.
        let takes = match (asks.count(), slow.load(Ordering::Relaxed)) {
            (3, 0) => 60,
            (1, 1 | 2) => 200,
            _ => return Ok(Vec::new()),
        };
        slow.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(takes));
        Ok(Vec::new())
    });
    let ask = |id: &str, ttl| {
        let one = (SemaphoreName::parse("s").unwrap(), Count::ONE);
        let mut ask = Ask::new(ExternalId::parse(id).unwrap(), [one]).unwrap();
        ask.ttl = Some(Ttl::from_ms(ttl).unwrap());
        lockhouse.acquire(ask, Duration::ZERO)
    };
    // The three asks are queued behind the definition, so they are one batch.
    let (defined, short, middle, long) = tokio::join!(
        lockhouse.define("s", 3),
        ask("short", 50),
        ask("middle", 190),
        ask("long", 300)
    );
    defined.unwrap();
    for told in [short, middle, long] {
        assert_eq!(told.unwrap_err().code(), Code::RequestEnded);
    }
}

/// P9: a release whose answer was lost is recognized by its decision, even if the store's clock was set meanwhile.
#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_was_the_one_whatever_the_clock_says() {
    for hours in [-5, 0, 5] {
        let time = Arc::new(AtomicI64::new(1_800_000_000));
        let clock = Arc::clone(&time);
        let told = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
        let is_first = AtomicBool::new(true);
        let lockhouse = losing(Memory::with_clock(told), move |batch| {
            let is_end = |command: &Command| matches!(command, Command::End { .. });
            let loses =
                batch.commands.iter().any(is_end) && is_first.swap(false, Ordering::Relaxed);
            if loses {
                time.fetch_add(hours * 3600, Ordering::Relaxed);
            }
            loses
        });
        lockhouse.define("s", 1).await.unwrap();
        let permit = lockhouse.semaphore("s").try_acquire().await.unwrap();
        let id = permit.forget();
        let first = lockhouse.release(id.as_str()).await.unwrap();
        let second = lockhouse.release(id.as_str()).await.unwrap();
        assert_eq!((first.now, second.now), (true, false), "{hours} h");
    }
}

/// P10: a caller that finds another call looking for lapsed requests waits for it, and is not refused meanwhile.
#[tokio::test]
async fn an_ask_is_not_refused_while_others_end_lapsed_requests() {
    let lockhouse = slow_to_look(Duration::from_millis(100));
    lockhouse.define("s", 4).await.unwrap();
    for nth in 0..4 {
        let ask = lockhouse
            .request_with_id(format!("lapses-{nth}"))
            .permits("s", 1);
        let held = ask.ttl(Duration::from_millis(50)).try_acquire().await;
        held.unwrap().forget();
    }
    tokio::time::sleep(Duration::from_millis(60)).await;
    let late = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        lockhouse.semaphore("s").try_acquire().await
    };
    let semaphore = lockhouse.semaphore("s");
    let (first, second) = tokio::join!(semaphore.try_acquire(), late);
    first.unwrap().forget();
    second.unwrap().forget();
}

/// P10: a caller looks again for requests that an earlier look could not find yet.
#[tokio::test]
async fn a_request_that_lapses_right_after_a_look_blocks_nobody() {
    let lockhouse = slow_to_look(Duration::ZERO);
    lockhouse.define("s", 1).await.unwrap();
    let ask = lockhouse.request_with_id("lapses").permits("s", 1);
    let held = ask.ttl(Duration::from_millis(50)).try_acquire().await;
    held.unwrap().forget();
    let semaphore = lockhouse.semaphore("s");
    let refused = semaphore.try_acquire().await.unwrap_err();
    assert_eq!(refused.code(), Code::Exhausted);
    tokio::time::sleep(Duration::from_millis(60)).await;
    semaphore.try_acquire().await.unwrap().forget();
}

/// P10: the holder, which renews late, ends the lapsed request while the refused caller looks for it.
#[tokio::test]
async fn an_ask_is_not_refused_for_permits_that_their_holder_frees_meanwhile() {
    for after in [30, 0] {
        let lockhouse = slow_to_look(Duration::from_millis(100));
        lockhouse.define("s", 1).await.unwrap();
        let ask = lockhouse.request_with_id("lapses").permits("s", 1);
        let held = ask.ttl(Duration::from_millis(50)).try_acquire().await;
        held.unwrap().forget();
        tokio::time::sleep(Duration::from_millis(60)).await;
        let late = async {
            tokio::time::sleep(Duration::from_millis(after)).await;
            lockhouse.renew("lapses", None).await
        };
        let semaphore = lockhouse.semaphore("s");
        let (granted, renewed) = tokio::join!(semaphore.try_acquire(), late);
        granted.unwrap().forget();
        assert_eq!(renewed.unwrap_err().code(), Code::RequestEnded);
    }
}

/// P10: another process ends the lapsed request after the refused caller's look, and before the end that it sends.
#[tokio::test]
async fn an_ask_is_not_refused_for_permits_that_another_process_frees_meanwhile() {
    let is_first = AtomicBool::new(true);
    let lockhouse = hooked(move |batch| {
        let is_end = |command: &&Command| matches!(command, Command::End { .. });
        let end = batch.commands.iter().find(is_end);
        let end = end.filter(|_| is_first.swap(false, Ordering::Relaxed));
        Ok(end.cloned().into_iter().collect())
    });
    lockhouse.define("s", 1).await.unwrap();
    let ask = lockhouse.request_with_id("lapses").permits("s", 1);
    let held = ask.ttl(Duration::from_millis(50)).try_acquire().await;
    held.unwrap().forget();
    tokio::time::sleep(Duration::from_millis(60)).await;
    lockhouse
        .semaphore("s")
        .try_acquire()
        .await
        .unwrap()
        .forget();
}
