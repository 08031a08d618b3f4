//! P1, P2, P3, P7, P9: a Redis server that is killed and restarted, or stands still, loses no answered grant, and every caller
//! gets the true answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::Lockhouse;
use lockhouse_testkit::private_server::PrivateServer;
use lockhouse_testkit::{audit, rows};
use tokio::time::sleep;

const CLIENTS: usize = 2;
const CALLERS: usize = 16;
const CAPACITY: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_loses_nothing_that_was_answered() {
    survive("redis").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_valkey_loses_nothing_that_was_answered() {
    survive("valkey").await;
}

async fn survive(server: &'static str) {
    let Some(server) = PrivateServer::start(server) else {
        return;
    };
    let place = server.place().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(place.client().await);
    }
    clients[0].define("s", CAPACITY).await.unwrap();
    let is_over = AtomicBool::new(false);
    let callers = (0..CALLERS).map(|i| acquire_and_release(&clients[i % CLIENTS], i, &is_over));
    let troubles = async {
        for _ in 0..2 {
            sleep(Duration::from_secs(1)).await;
            server.kill_and_restart();
        }
        sleep(Duration::from_secs(1)).await;
        server.signal("STOP");
        // This is longer than a call waits for an answer, and than a write may be late.
        sleep(Duration::from_secs(4)).await;
        server.signal("CONT");
        sleep(Duration::from_secs(1)).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let (granted, ()) = tokio::join!(join_all(callers), troubles);
    let granted: Vec<_> = granted.into_iter().flatten().collect();
    assert!(granted.len() > 20, "only {} grants", granted.len());
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    for (id, fence) in &granted {
        let of_it = rows.permits.iter().find(|row| row.external_id == *id);
        let kept = of_it.unwrap_or_else(|| panic!("{id} was granted, and is lost"));
        assert_eq!(kept.fence.unsigned_abs(), *fence, "{id}");
    }
    let findings = clients[0].verify().await.unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    place.clear().await;
}

/// Returns the granted ids, with their fences. A caller that gets an error instead of an answer in time asks again.
async fn acquire_and_release(
    lockhouse: &Lockhouse,
    caller: usize,
    is_over: &AtomicBool,
) -> Vec<(String, u64)> {
    let mut granted = Vec::new();
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{caller}-{round}");
        let permit = loop {
            let ask = lockhouse.request_with_id(&id).permits("s", 1);
            match ask.wait(Duration::from_secs(30)).acquire().await {
                Ok(permit) => break permit,
                Err(error) => assert!(error.is_transient(), "{id}: {error}"),
            }
        };
        granted.push((id.clone(), permit.fence("s")));
        permit.forget();
        while let Err(error) = lockhouse.release(&*id).await {
            assert!(error.is_transient(), "{id}: {error}");
        }
    }
    granted
}
