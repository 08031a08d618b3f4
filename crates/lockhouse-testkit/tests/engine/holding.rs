//! Renewing and losing (P8), by a clock that jumps ahead when no task can run.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use lockhouse::{EndReason, Lockhouse, Lost};
use lockhouse_core::Command;
use lockhouse_core::store::{Error, Kind};
use tokio::time::{Instant, sleep};

use crate::hooked::hooked;

const TTL: Duration = Duration::from_secs(30);

/// As documented, a hold counts as lost a tenth of its TTL before its end.
const HELD_FOR: Duration = Duration::from_secs(27);

/// The renewals and heartbeats that the store got, with their times.
type Seen = Arc<Mutex<Vec<(Instant, &'static str)>>>;

/// A client with a semaphore `s` on a store that fails while `has_trouble` returns true, and the calls that the store got.
async fn house(has_trouble: impl Fn() -> bool + Send + Sync + 'static) -> (Lockhouse, Seen) {
    let seen = Seen::default();
    let lockhouse = hooked({
        let seen = Arc::clone(&seen);
        move |batch| {
            let keeps = batch.commands.iter().filter_map(|command| match command {
                Command::Renew { .. } => Some("renew"),
                Command::Heartbeat { .. } => Some("heartbeat"),
                _ => None,
            });
            let now = Instant::now();
            seen.lock().unwrap().extend(keeps.map(|what| (now, what)));
            match has_trouble() {
                true => Err(Error::new(Kind::Unavailable, "the store has trouble")),
                false => Ok(Vec::new()),
            }
        }
    });
    lockhouse.define("s", 100).await.unwrap();
    (lockhouse, seen)
}

fn times(seen: &Seen, what: &str) -> Vec<Instant> {
    let seen = seen.lock().unwrap();
    let of = seen.iter().filter(|(_, kind)| *kind == what);
    of.map(|(at, _)| *at).collect()
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_renewed_every_third_of_its_ttl_or_a_little_sooner() {
    let (lockhouse, seen) = house(|| false).await;
    let permit = lockhouse.semaphore("s").acquire().await.unwrap();
    sleep(100 * TTL).await;
    assert!(!permit.is_lost());
    let renewed = times(&seen, "renew");
    let gaps: Vec<_> = renewed.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
    assert!(*least >= Duration::from_secs(8), "{least:?}");
    assert!(*most <= Duration::from_millis(10_010), "{most:?}");
    let jitter = *most - *least;
    assert!(jitter > Duration::from_secs(1), "{jitter:?}");
}

#[tokio::test(start_paused = true)]
async fn permits_that_were_granted_together_are_not_renewed_in_step() {
    let (lockhouse, seen) = house(|| false).await;
    let semaphore = lockhouse.semaphore("s");
    let held = try_join_all((0..100).map(|_| semaphore.acquire())).await;
    let began = Instant::now();
    sleep(10 * TTL).await;
    let mut of_second = [0; 300];
    for at in times(&seen, "renew") {
        of_second[(at - began).as_secs() as usize % 300] += 1;
    }
    let most = of_second[200..].iter().max().unwrap();
    assert!(*most < 50, "{most} of 100 in one second");
    drop(held);
}

/// An owner sends one heartbeat, however many permits it has.
#[tokio::test(start_paused = true)]
async fn one_heartbeat_renews_all_permits_of_a_session() {
    let (lockhouse, seen) = house(|| false).await;
    let session = lockhouse.session("job", TTL).await.unwrap();
    let semaphore = session.semaphore("s");
    let held = try_join_all((0..100).map(|_| semaphore.acquire())).await;
    let before = times(&seen, "heartbeat").len();
    sleep(100 * TTL).await;
    let beats = times(&seen, "heartbeat").len() - before;
    assert!((300..=376).contains(&beats), "{beats} in 100 TTLs");
    assert_eq!(times(&seen, "renew").len(), 0);
    assert!(held.unwrap().iter().all(|permit| !permit.is_lost()));
}

/// The hiccups last half of the TTL, and come at any time.
#[tokio::test(start_paused = true)]
async fn a_hold_lives_through_hiccups_of_the_store() {
    let began = Instant::now();
    let (lockhouse, _) = house(move || began.elapsed().as_secs() % 31 >= 16).await;
    let permit = lockhouse.semaphore("s").acquire().await.unwrap();
    let session = lockhouse.session("job", TTL).await.unwrap();
    sleep(100 * TTL).await;
    assert!(!permit.is_lost() && !session.is_lost());
    permit.forget();
    session.forget();
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_cannot_be_renewed_is_lost_a_tenth_before_its_end() {
    let trouble = Arc::new(AtomicBool::new(false));
    let (lockhouse, _) = house({
        let trouble = Arc::clone(&trouble);
        move || trouble.load(SeqCst)
    })
    .await;
    let sent_at = Instant::now();
    let permit = lockhouse.semaphore("s").acquire().await.unwrap();
    let session = lockhouse.session("job", TTL).await.unwrap();
    let kept = session.semaphore("s").acquire().await.unwrap();
    trouble.store(true, SeqCst);
    sleep(HELD_FOR - Duration::from_millis(10)).await;
    assert!(!permit.is_lost() && !session.is_lost() && !kept.is_lost());
    let lost = [permit.lost().await, session.lost().await, kept.lost().await];
    assert_eq!(lost, [Lost::NotRenewed; 3]);
    let after = sent_at.elapsed();
    assert!(after >= HELD_FOR && after < HELD_FOR + Duration::from_millis(10));
    assert!(permit.is_lost() && session.is_lost() && kept.is_lost());
}

/// A clone that shared the id would hand out two permits and take one (P1).
#[tokio::test(start_paused = true)]
async fn each_clone_of_an_ask_without_an_id_is_granted_permits_of_its_own() {
    let (lockhouse, _) = house(|| false).await;
    let ask = lockhouse.request().permits("s", 1);
    let one = ask.clone().acquire().await.unwrap();
    let two = ask.try_acquire().await.unwrap();
    assert_ne!(one.external_id(), two.external_id());
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 2);
    one.release().await.unwrap();
    assert!(!two.is_lost());
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 1);
}

/// The thread behaves like a stopped process: no other task could report the loss meanwhile.
#[tokio::test]
async fn a_thread_that_was_busy_too_long_finds_its_hold_lost_at_the_first_look() {
    let (lockhouse, seen) = house(|| false).await;
    let ask = || lockhouse.request().permits("s", 1).ttl(TTL / 50);
    let permits = [
        ask().acquire().await.unwrap(),
        ask().acquire().await.unwrap(),
    ];
    let until = permits[1].held_until().unwrap();
    std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
    assert!(permits[0].is_lost());
    assert_eq!(permits[1].lost().now_or_never(), Some(Lost::NotRenewed));
    sleep(Duration::from_millis(50)).await;
    assert!(permits.iter().all(lockhouse::Permit::is_lost), "for good");
    assert_eq!(times(&seen, "renew").len(), 0, "a lost hold is not renewed");
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_is_the_end_of_what_the_session_kept() {
    let (lockhouse, _) = house(|| false).await;
    for say in [true, false] {
        let session = lockhouse.session("job", TTL).await.unwrap();
        let kept = session.semaphore("s").acquire().await.unwrap();
        let others = session.request_with_id(format!("{say}")).permits("s", 1);
        let others = others.owner("other").acquire().await.unwrap();
        match say {
            true => assert_eq!(session.goodbye().await.unwrap(), 1),
            false => drop(session),
        }
        assert_eq!(kept.lost().await, Lost::Ended(EndReason::Released));
        assert!(!others.is_lost(), "another owner's permit stays");
    }
}

/// The TTL and the session each end the permit.
#[tokio::test(start_paused = true)]
async fn a_permit_with_a_ttl_of_its_own_is_lost_with_its_session_too() {
    let (lockhouse, _) = house(|| false).await;
    let session = lockhouse.session("job", TTL).await.unwrap();
    let ask = session.request_with_id("r").permits("s", 1).ttl(10 * TTL);
    let permit = ask.acquire().await.unwrap();
    session.goodbye().await.unwrap();
    assert!(permit.is_lost());
}
