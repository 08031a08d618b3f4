//! A malformed line breaks none of P1 to P7, as the line decides only the order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lockhouse::{Lockhouse, Request};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::{self, Place};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::queue::{LONG, ask};

on_each_store!(a_line_that_is_overwritten_all_the_time_breaks_no_promise);

const CAPACITY: u32 = 3;

const HOLDS_EACH: u32 = 25;

/// Texts of lines, and texts that look like lines.
fn garbage(random: &mut fastrand::Rng) -> String {
    let number = |random: &mut fastrand::Rng| match random.u8(0..6) {
        0 => i64::MAX.to_string(),
        1 => i64::MIN.to_string(),
        2 => "-".to_owned(),
        3 => format!("{:x}", random.u64(..)),
        4 => random.i32(0..5).to_string(),
        _ => random
            .i64(1_700_000_000_000_000..1_900_000_000_000_000)
            .to_string(),
    };
    let mut text = [number(random), number(random), number(random)].join(" ");
    for _ in 0..random.usize(0..6) {
        let words: Vec<_> = (0..5).map(|_| number(random)).collect();
        text = format!("{text};{}", words.join(" "));
    }
    let kept = random.usize(0..=text.len());
    match random.bool() {
        true => text,
        false => text[..kept].to_owned(),
    }
}

/// Holds again and again. Returns all its grants.
fn holds(lockhouse: &Lockhouse, who: String, held: &Arc<AtomicU32>) -> JoinHandle<Vec<Request>> {
    let (lockhouse, held) = (lockhouse.clone(), Arc::clone(held));
    tokio::spawn(async move {
        let mut granted = Vec::new();
        for i in 0..HOLDS_EACH {
            let asks = ask(&format!("{who}-{i}"), &[("s", 1 + i % 2)]);
            let count = 1 + i % 2;
            let (request, _) = lockhouse.acquire(asks.clone(), LONG).await.unwrap();
            let live = held.fetch_add(count, Ordering::SeqCst) + count;
            assert!(live <= CAPACITY, "P1: {live} of {CAPACITY} are held");
            let (again, is_new) = lockhouse.acquire(asks, LONG).await.unwrap();
            assert!(!is_new && again.permits == request.permits, "P5: {again:?}");
            sleep(Duration::from_millis(2)).await;
            held.fetch_sub(count, Ordering::SeqCst);
            let ended = lockhouse.release(request.external_id.as_str()).await;
            assert!(ended.unwrap().now, "P3");
            granted.push(request);
        }
        granted
    })
}

async fn a_line_that_is_overwritten_all_the_time_breaks_no_promise(place: Place) {
    let clients = [place.client().await, place.client().await];
    clients[0].define("s", CAPACITY).await.unwrap();
    let (held, is_over) = (Arc::new(AtomicU32::new(0)), AtomicBool::new(false));
    let holders: Vec<_> = (0..12)
        .map(|i| holds(&clients[i % 2], i.to_string(), &held))
        .collect();
    let corrupting = async {
        let mut random = fastrand::Rng::with_seed(19);
        while !is_over.load(Ordering::Relaxed) {
            let text = garbage(&mut random);
            place::overwrite_line(&place, "s", &text).await;
            sleep(Duration::from_millis(15)).await;
        }
    };
    let holding = async {
        let mut granted = Vec::new();
        for holder in holders {
            granted.extend(holder.await.unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
        granted
    };
    let (granted, ()) = tokio::join!(holding, corrupting);
    let mut fences: Vec<_> = granted.iter().map(|r| r.permits[0].fence).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), granted.len(), "P7");
    let store = lockhouse_stores::open(place.url()).unwrap();
    let findings = store.recount().await.unwrap().findings();
    assert!(findings.is_empty(), "P2: {findings:?}");
    assert_eq!(clients[1].status("s").await.unwrap().semaphore.in_use, 0);
    place.clear().await;
}
