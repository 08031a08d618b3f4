//! Holds a permit for a test, in a process of its own that can be stopped.
//!
//! `holder URL SEMAPHORE EXTERNAL_ID TTL_MS`
//!
//! Says `held` once it is, and then, to each line on stdin, `held` or `lost`: what a job that looks
//! before its next step sees. Meanwhile another thread renews the hold.

use std::future::Future;
use std::io::BufRead as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockhouse::{Lockhouse, Permit};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, semaphore, id, ttl_ms] = &arguments[..] else {
        panic!("holder URL SEMAPHORE EXTERNAL_ID TTL_MS");
    };
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let permit = runtime.block_on(async {
        let lockhouse = Lockhouse::connect(url).await.unwrap();
        let ask = lockhouse.request_with_id(id).permits(semaphore, 1);
        ask.ttl(ttl).acquire().await.unwrap()
    });
    println!("held");
    let _timers = runtime.enter();
    for line in std::io::stdin().lock().lines() {
        line.unwrap();
        println!("{}", look(&permit));
    }
}

/// Both ways to look, which must agree.
fn look(permit: &Permit) -> &'static str {
    let is_lost = permit.is_lost();
    let lost = pin!(permit.lost()).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(is_lost, matches!(lost, Poll::Ready(_)));
    if is_lost { "lost" } else { "held" }
}
