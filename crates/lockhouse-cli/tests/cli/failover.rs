//! Servers on a PostgreSQL with two standbys, by a URL with the hosts of all three, while the primary is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::house::House;
use lockhouse::Lockhouse;
use lockhouse_testkit::history::{Answer, Asked, Recorded, Recorder, check, now_us, overtaken};
use lockhouse_testkit::replicated::Replicated;
use lockhouse_testkit::rows;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// With their capacities.
const SEMAPHORES: [(&str, u32); 3] = [("north", 1), ("middle", 2), ("south", 5)];

const CLIENTS: u32 = 6;

/// How soon after the promotion both servers have to serve.
const FOLLOWED_WITHIN_US: u64 = 10_000_000;

/// P1 to P5, P7, P9, P11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_follow_a_promoted_synchronous_standby_and_nothing_is_lost() {
    let Some(cluster) = Replicated::start().await else {
        return;
    };
    let house = House::at(&cluster.url());
    let servers = [(); 2].map(|()| house.serve("127.0.0.1:0"));
    let urls = servers.each_ref().map(|(_, url)| url.as_str());
    let recorder = Arc::new(Recorder::default());
    let first = Lockhouse::connect(urls[0]).await.unwrap();
    let first = Recorded::new(first, &recorder, 0);
    for (name, capacity) in SEMAPHORES {
        assert_eq!(first.define(name, capacity).await, Answer::Done);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 1..=CLIENTS {
        let at = urls[client as usize % 2];
        let lockhouse = Lockhouse::connect(at).await.unwrap();
        let recorded = Recorded::new(lockhouse, &recorder, client);
        clients.spawn(load(recorded, client, Arc::clone(&stop)));
    }
    sleep(Duration::from_secs(2)).await;

    let killed = now_us();
    cluster.kill_primary();
    let primary = cluster.promote().await;
    let promoted = now_us();
    sleep(Duration::from_micros(FOLLOWED_WITHIN_US)).await;
    stop.store(true, Relaxed);
    clients.join_all().await;

    let history = recorder.history();
    let granted_by = |server: u32| {
        let grants = history.iter().filter(|operation| {
            let is_grant = matches!(operation.answer, Answer::Granted { now: true, .. });
            is_grant && operation.client % 2 == server && operation.ended > promoted
        });
        grants.map(|grant| grant.ended).min()
    };
    for server in 0..2 {
        let after = granted_by(server).expect("the server grants again") - promoted;
        println!(
            "server {server} granted {} ms after the promotion",
            after / 1_000
        );
        assert!(after < FOLLOWED_WITHIN_US, "server {server}: {after} µs");
    }
    let mut rows = rows::read(&cluster.node(primary)).await;
    // The servers' own, by which they share the upkeep.
    rows.semaphores
        .retain(|row| !row.name.starts_with("lockhouse:"));
    rows.permits
        .retain(|row| !row.semaphore.starts_with("lockhouse:"));
    let broken = check(&history, Some(&rows));
    assert!(broken.is_empty(), "{broken:#?}");
    let troubled = [(killed, promoted + FOLLOWED_WITHIN_US)];
    let (overtaken, _) = overtaken(&history, &troubled);
    assert!(overtaken.is_empty(), "{overtaken:#?}");
    house.text(&["verify"]);
}

/// Acquires, holds and releases. A call that is not answered is repeated until it is.
async fn load(client: Recorded, number: u32, stop: Arc<AtomicBool>) {
    for turn in 0.. {
        if stop.load(Relaxed) {
            return;
        }
        let semaphore = SEMAPHORES[turn % SEMAPHORES.len()].0;
        let asked = Asked {
            id: format!("w{number}-{turn}"),
            permits: vec![(semaphore.to_owned(), 1)],
            owner: None,
            ttl_us: Some(60_000_000),
            waits: true,
            priority: 0,
        };
        let ask = || client.acquire(asked.clone(), Duration::from_secs(20));
        if let Answer::Granted { .. } = answered(ask).await {
            sleep(Duration::from_millis(5)).await;
            answered(|| client.release(&asked.id)).await;
        }
    }
}

async fn answered<F: Future<Output = Answer>>(call: impl Fn() -> F) -> Answer {
    loop {
        match call().await {
            Answer::Unknown => sleep(Duration::from_millis(50)).await,
            answer => return answer,
        }
    }
}

/// The steps of `docs/operations/runbook.md`, after a failover that lost a grant and a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_ends_right_after_a_failover_that_lost_commits() {
    let Some(cluster) = Replicated::start().await else {
        return;
    };
    cluster.make_asynchronous().await;
    let house = House::at(&cluster.url());
    house.text(&["create", "kept", "1"]);
    house.text(&["create", "lost", "1"]);
    let acquire = |semaphore, id| {
        let args = ["acquire", "-s", semaphore, "--id", id, "--ttl", "10s"];
        let granted = house.json(&args);
        granted["permits"][0]["fence"].as_u64().unwrap()
    };
    acquire("kept", "held-again");
    // A standby must have that: it gets commits in order.
    cluster.until_caught_up().await;
    cluster.cut_off_standbys().await;
    house.text(&["release", "held-again"]);
    let lost_fence = acquire("lost", "unknown");
    cluster.kill_primary();
    cluster.promote().await;

    let renewed = house.done(&["-o", "json", "renew", "unknown", "--ttl", "10s"]);
    assert!(renewed.stderr.contains("unknown_request"), "{renewed:?}");
    assert_eq!(house.in_use("kept"), 1);
    for semaphore in ["kept", "lost"] {
        house.text(&["resize", semaphore, "0"]);
    }
    house.text(&["epoch"]);
    sleep(Duration::from_secs(10)).await;
    house.text(&["sweep"]);
    house.text(&["verify"]);
    for semaphore in ["kept", "lost"] {
        house.text(&["resize", semaphore, "1"]);
    }
    assert_eq!(house.in_use("kept"), 0);
    assert!(acquire("lost", "next") > lost_fence);
    acquire("kept", "next-too");
}
