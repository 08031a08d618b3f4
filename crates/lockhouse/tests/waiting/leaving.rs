//! Callers that give up, go away or come back, and holders that are gone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse::{Code, Error, Lockhouse, Refusal};
use tokio::time::{Instant, sleep, timeout};

use crate::house::{Caller, LONG, ask, for_ms, grant, house, idle, name};

#[tokio::test(start_paused = true)]
async fn a_wait_ends_within_50_ms_of_its_time() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    for wait in [1, 30, 700, 61_234].map(Duration::from_millis) {
        let begun = Instant::now();
        let refused = lockhouse.acquire(ask("r", &[("a", 1)]), wait).await;
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::Exhausted(full))) if full == [name("a")])
        );
        let late = begun.elapsed() - wait;
        assert!(late < Duration::from_millis(50), "{late:?}");
    }
    assert_eq!(lockhouse.status("a").await.unwrap().waiting, 0);
}

/// The first ask of a call is answered, even if that takes longer than the wait.
#[tokio::test(start_paused = true)]
async fn a_repeated_ask_with_a_short_wait_gets_its_grant() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("r", &[("a", 1)])).await.unwrap();
    store.slow_us.store(20_000, Ordering::SeqCst);
    let again = lockhouse
        .acquire(ask("r", &[("a", 1)]), Duration::from_millis(1))
        .await;
    assert!(!again.unwrap().1);
}

#[tokio::test(start_paused = true)]
async fn waiters_beyond_the_limit_are_refused() {
    let (lockhouse, _) = house(&[("a", 1), ("b", 1)]).await;
    lockhouse.limit_waiters(2).unwrap();
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let one = Caller::waits(&lockhouse, ask("one", &[("a", 1)]), LONG).await;
    let _two = Caller::waits(&lockhouse, ask("two", &[("a", 1)]), LONG).await;
    let much = lockhouse.acquire(ask("three", &[("a", 1)]), LONG).await;
    assert_eq!(much.unwrap_err().code(), Code::Overloaded);
    lockhouse
        .acquire(ask("beside", &[("b", 1)]), LONG)
        .await
        .unwrap();
    drop(one);
    idle().await;
    let _three = Caller::waits(&lockhouse, ask("three", &[("a", 1)]), LONG).await;
    assert_eq!(lockhouse.status("a").await.unwrap().waiting, 2);
}

/// A caller comes back after its connection broke, or waits in several calls.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_comes_back_soon_has_its_old_place() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let first = || ask("first", &[("a", 1)]);
    let second = Caller::waits(&lockhouse, first(), Duration::from_secs(20));
    let (ended, next) = (
        second.await,
        Caller::waits(&lockhouse, ask("next", &[("a", 1)]), LONG).await,
    );
    assert_eq!(ended.answer().await.unwrap_err().code(), Code::Exhausted);
    sleep(Duration::from_millis(100)).await;
    drop(Caller::waits(&lockhouse, first(), LONG).await);
    sleep(Duration::from_secs(4)).await;
    let back = Caller::waits(&lockhouse, first(), LONG).await;
    lockhouse.release("held").await.unwrap();
    back.granted().await;
    assert!(!next.is_answered());
}

/// A writer waits in several calls, each of which begins before the last one ends. No reader gets in between.
#[tokio::test(start_paused = true)]
async fn a_caller_that_renews_its_wait_is_not_overtaken() {
    let (lockhouse, _) = house(&[("a", 10)]).await;
    grant(&lockhouse, ask("reader", &[("a", 1)])).await.unwrap();
    let writer = || ask("writer", &[("a", 10)]);
    let mut call = Caller::waits(&lockhouse, writer(), Duration::from_secs(20)).await;
    sleep(Duration::from_secs(1)).await;
    let behind = Caller::waits(&lockhouse, ask("behind", &[("a", 1)]), LONG).await;
    for _ in 0..3 {
        sleep(Duration::from_secs(18)).await;
        let next = Caller::waits(&lockhouse, writer(), Duration::from_secs(20)).await;
        let ended = call.answer().await.unwrap_err();
        assert_eq!(ended.code(), Code::Exhausted);
        idle().await;
        assert!(!behind.is_answered(), "overtaken");
        call = next;
    }
    lockhouse.release("reader").await.unwrap();
    call.granted().await;
    assert!(!behind.is_answered());
    lockhouse.release("writer").await.unwrap();
    behind.granted().await;
}

/// Otherwise a caller that waits in several calls would be refused during its wait.
#[tokio::test(start_paused = true)]
async fn a_repeated_call_is_let_into_a_full_line() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    lockhouse.limit_waiters(1).unwrap();
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let waits = || Caller::waits(&lockhouse, ask("r", &[("a", 1)]), LONG);
    let (one, two) = (waits().await, waits().await);
    assert!(!two.is_answered());
    let three = waits().await;
    assert_eq!(three.answer().await.unwrap_err().code(), Code::Overloaded);
    lockhouse.release("held").await.unwrap();
    one.granted().await;
    assert!(!two.answer().await.unwrap().1, "granted before");
}

/// Otherwise the line would wait for a caller that has gone.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_stays_away_loses_its_place() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    drop(Caller::waits(&lockhouse, ask("first", &[("a", 1)]), LONG).await);
    let next = Caller::waits(&lockhouse, ask("next", &[("a", 1)]), LONG).await;
    sleep(Duration::from_secs(6)).await;
    let back = Caller::waits(&lockhouse, ask("first", &[("a", 1)]), LONG).await;
    lockhouse.release("held").await.unwrap();
    next.granted().await;
    assert!(!back.is_answered());
}

/// P10: a grant to such a caller would never be released.
#[tokio::test(start_paused = true)]
async fn a_caller_that_went_away_is_never_granted() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
    let gone = Caller::waits(&lockhouse, ask("gone", &[("a", 1)]), LONG).await;
    // `gone` leaves while its grant is prepared: a lane has the semaphore, and the release with the next waiter follows.
    store.slow_us.store(50_000, Ordering::SeqCst);
    let busy = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { grant(&lockhouse, ask("busy", &[("a", 1)])).await }
    });
    idle().await;
    let releasing = tokio::spawn({
        let lockhouse = lockhouse.clone();
        async move { lockhouse.release("held").await }
    });
    idle().await;
    drop(gone);
    busy.await.unwrap().unwrap_err();
    releasing.await.unwrap().unwrap();
    let unknown = lockhouse.find("gone").await.unwrap_err();
    assert_eq!(unknown.code(), Code::UnknownRequest);
    assert_eq!(lockhouse.status("a").await.unwrap().semaphore.in_use, 0);
}

/// P10: a committed grant to a caller that went away is released.
#[tokio::test(start_paused = true)]
async fn a_grant_to_a_caller_that_went_away_is_released() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    for patience_us in (0..60_000).step_by(1500) {
        store.slow_us.store(0, Ordering::SeqCst);
        grant(&lockhouse, ask(&format!("held{patience_us}"), &[("a", 1)]))
            .await
            .unwrap();
        let waiting = tokio::spawn({
            let lockhouse = lockhouse.clone();
            async move { lockhouse.semaphore("a").acquire().await }
        });
        idle().await;
        store.slow_us.store(30_000, Ordering::SeqCst);
        let release = async { lockhouse.release(format!("held{patience_us}")).await };
        let give_up = async {
            sleep(Duration::from_micros(patience_us)).await;
            waiting.abort();
        };
        let (released, ()) = tokio::join!(release, give_up);
        released.unwrap();
        drop(waiting.await);
        let back = async {
            while lockhouse.status("a").await.unwrap().semaphore.in_use > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(1), back)
            .await
            .expect("the permit is released");
    }
}

/// P10: a lapsed hold delays waiters by at most a second.
#[tokio::test]
async fn a_dead_holders_permits_are_there_within_a_second_of_its_time() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    let other = Lockhouse::with_store(store.beside());
    grant(&other, for_ms(300, ask("dead", &[("a", 1)])))
        .await
        .unwrap();
    let begun = Instant::now();
    let waits = Caller::waits(&lockhouse, ask("next", &[("a", 1)]), LONG).await;
    waits.granted().await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(1300), "{took:?}");
}

/// P10: a process looks for a request that it granted as soon as it has expired.
#[tokio::test]
async fn a_waiter_is_served_when_a_dead_holder_of_its_process_expires() {
    let (lockhouse, _) = house(&[("a", 1)]).await;
    let mut late = Vec::new();
    for round in 0..7 {
        let dead = for_ms(250, ask(&format!("dead{round}"), &[("a", 1)]));
        grant(&lockhouse, dead).await.unwrap();
        let begun = Instant::now();
        let next = format!("next{round}");
        let waits = Caller::waits(&lockhouse, ask(&next, &[("a", 1)]), LONG).await;
        waits.granted().await;
        late.push(begun.elapsed().saturating_sub(Duration::from_millis(250)));
        lockhouse.release(&next).await.unwrap();
    }
    late.sort_unstable();
    assert!(late[3] < Duration::from_millis(80), "{late:?}");
}

/// P10, P11: a locked row delays only callers that need it.
#[tokio::test]
async fn a_lapsed_request_that_cannot_be_ended_delays_no_other_semaphore() {
    let (lockhouse, store) = house(&[("a", 1), ("b", 1)]).await;
    let other = Lockhouse::with_store(store.beside());
    grant(&other, for_ms(20, ask("dead", &[("a", 1)])))
        .await
        .unwrap();
    grant(&other, ask("alive", &[("b", 1)])).await.unwrap();
    store.never_ends.store(true, Ordering::SeqCst);
    let _first = Caller::waits(&lockhouse, ask("first", &[("a", 1)]), LONG).await;
    let second = Caller::waits(&lockhouse, ask("second", &[("b", 1)]), LONG).await;
    sleep(Duration::from_millis(600)).await;
    assert!(store.ends.load(Ordering::SeqCst) > 0, "it was tried");
    other.release("alive").await.unwrap();
    let served = timeout(Duration::from_secs(1), second.granted()).await;
    served.expect("it does not wait for the locked row");
}

/// A client may be used on two runtimes. A call of a runtime that ends does not delay callers on the other one.
#[test]
fn a_runtime_that_ends_leaves_nobody_on_another_without_an_answer() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let (ends, stays) = (runtime(), runtime());
    let (lockhouse, store, waits) = stays.block_on(async {
        let (lockhouse, store) = house(&[("a", 1)]).await;
        grant(&lockhouse, ask("held", &[("a", 1)])).await.unwrap();
        let waits = Caller::waits(&lockhouse, ask("waits", &[("a", 1)]), LONG).await;
        while lockhouse.status("a").await.unwrap().waiting == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        (lockhouse, store, waits)
    });
    store.never.store(true, Ordering::SeqCst);
    let batches = store.batches.load(Ordering::SeqCst);
    let releases = lockhouse.clone();
    // The release is in one batch with the grant to the waiter.
    ends.spawn(async move { releases.release("held").await });
    while store.batches.load(Ordering::SeqCst) == batches {
        std::thread::yield_now();
    }
    ends.shutdown_timeout(Duration::from_secs(5));
    store.never.store(false, Ordering::SeqCst);
    stays.block_on(async {
        let told = timeout(Duration::from_secs(5), waits.answer()).await;
        let told = told.expect("it is answered").unwrap_err();
        assert!(
            matches!(&told, Error::Store(error) if error.maybe_applied()),
            "{told}"
        );
        lockhouse.release("held").await.unwrap();
        grant(&lockhouse, ask("waits", &[("a", 1)])).await.unwrap();
    });
}

/// Other processes count a process's entry in the line until it is removed. It is removed even if that failed at first, and
/// another waiter came and left before the retry.
#[tokio::test(start_paused = true)]
async fn an_entry_that_could_not_be_taken_out_is_taken_out_later() {
    let (lockhouse, store) = house(&[("a", 1)]).await;
    let other = Lockhouse::with_store(store.beside());
    grant(&other, ask("held", &[("a", 1)])).await.unwrap();
    let first = Caller::waits(&lockhouse, ask("first", &[("a", 1)]), LONG).await;
    sleep(Duration::from_millis(400)).await;
    assert_eq!(other.status("a").await.unwrap().waiting, 1);
    store.rejects_stands.store(true, Ordering::SeqCst);
    drop(first);
    sleep(Duration::from_millis(10)).await;
    let second = Caller::waits(&lockhouse, ask("second", &[("a", 1)]), LONG).await;
    sleep(Duration::from_millis(10)).await;
    drop(second);
    store.rejects_stands.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(other.status("a").await.unwrap().waiting, 0);
}
