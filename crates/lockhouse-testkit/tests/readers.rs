//! P13: readers that list what is held, in a loop, take the store from nobody who acquires and releases.
//!
//! Rounds with readers and without take turns, so that whatever else the machine does befalls them alike.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Ask, Code, Count, ExternalId, Lockhouse, SemaphoreName};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::Place;
use tokio::time::sleep;

const HELD: usize = 10_000;
const CLIENTS: usize = 10;
const READERS: usize = 20;
const ROUNDS: u32 = 4;
const ROUND: Duration = Duration::from_secs(1);

on_each_store! {
    clients_keep_most_of_their_rate_beside_readers,
}

async fn clients_keep_most_of_their_rate_beside_readers(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("held", HELD as u32).await.unwrap();
    for many in 0..HELD / 500 {
        let hold = |i: usize| {
            let id = ExternalId::parse(format!("held-{many}-{i}")).unwrap();
            let ask = Ask::new(id, [(name("held"), Count::ONE)]).unwrap();
            lockhouse.acquire(ask, Duration::ZERO)
        };
        let held = join_all((0..500).map(hold)).await;
        assert!(held.iter().all(Result::is_ok));
    }
    let (mut alone, mut beside, mut pages) = (0, 0, 0);
    for _ in 0..ROUNDS {
        alone += round(&lockhouse, 0).await.0;
        let (pairs, read) = round(&lockhouse, READERS).await;
        beside += pairs;
        pages += read;
    }
    println!("pairs alone {alone}, beside readers {beside}; {pages} pages");
    assert!(pages > ROUNDS * 10, "{pages} pages were read");
    assert!(
        2 * beside > alone,
        "{beside} pairs beside readers, {alone} without"
    );
    place.clear().await;
}

/// How many pairs of acquire and release the clients do, and how many pages the readers get.
async fn round(lockhouse: &Lockhouse, readers: usize) -> (u32, u32) {
    let is_over = &AtomicBool::new(false);
    let (pairs, pages) = (&AtomicU32::new(0), &AtomicU32::new(0));
    let client = |i: usize| async move {
        let name = format!("of-{i}");
        lockhouse.define(&name, 1).await.unwrap();
        while !is_over.load(SeqCst) {
            let permit = lockhouse.semaphore(&name).acquire().await.unwrap();
            permit.release().await.unwrap();
            pairs.fetch_add(1, SeqCst);
        }
    };
    let reader = |i: usize| async move {
        let held = name("held");
        let on = [None, Some(&held)][i % 2];
        let mut after = None;
        while !is_over.load(SeqCst) {
            match lockhouse.holders(on, after, 100).await {
                Ok(page) => {
                    after = page.next;
                    pages.fetch_add(1, SeqCst);
                }
                Err(error) => assert_eq!(error.code(), Code::Overloaded),
            }
        }
    };
    let clients = join_all((0..CLIENTS).map(client));
    let readers = join_all((0..readers).map(reader));
    let clock = async {
        sleep(ROUND).await;
        is_over.store(true, SeqCst);
    };
    tokio::join!(clients, readers, clock);
    (pairs.load(SeqCst), pages.load(SeqCst))
}

fn name(name: &str) -> SemaphoreName {
    SemaphoreName::parse(name).unwrap()
}
