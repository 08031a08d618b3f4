//! A request that its holder finished, as callers of the HTTP API see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockhouse::{EndReason, ExternalId, Lockhouse, State};
use lockhouse_testkit::on_each_store;
use lockhouse_testkit::place::{Place, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{Caller, LONG, end_reason, granted};

on_each_store! { sql:
    a_finished_request_is_released_over_http_before_it_is_ended,
    a_repeated_remote_release_does_not_claim_what_the_holder_finished,
}

/// A request "a" that its holder finished, and that no command has ended since.
async fn finished(place: &Place, lockhouse: &Lockhouse) {
    lockhouse.define("s", 1).await.unwrap();
    granted(lockhouse, "s", "a", LONG).await;
    let mut caller = Caller::open(place).await;
    caller.begin().await;
    assert!(caller.finish("a").await);
    caller.commit().await;
}

async fn a_finished_request_is_released_over_http_before_it_is_ended(place: Place) {
    let engine = place.client().await;
    let (url, _serving) = serve(engine.clone()).await;
    let remote = Lockhouse::connect(&url).await.unwrap();
    finished(&place, &engine).await;
    let status = remote.status("s").await.unwrap();
    assert_eq!(status.semaphore.in_use, 1, "no command has ended it");
    for lockhouse in [&remote, &engine] {
        let seen = lockhouse.find("a").await.unwrap();
        let at = seen.finished_at.unwrap();
        let reason = EndReason::Released;
        assert_eq!(seen.state, State::Released { reason, at });
        let held = lockhouse.holders(None, None, 10).await.unwrap();
        assert!(held.requests.is_empty(), "{held:?}");
    }
    let before = remote.find("a").await.unwrap();
    let reason = end_reason(remote.renew("a", None).await);
    assert_eq!(reason, EndReason::Released);
    let id = ExternalId::parse("a").unwrap();
    let released = remote.release(&id).await.unwrap();
    assert!(!released.now, "the holder's commit was the release");
    assert_eq!(released.request, before);
    assert_eq!(remote.find("a").await.unwrap(), before, "P4");
    let again = remote.request_with_id("a").permits("s", 1);
    assert_eq!(
        end_reason(again.ttl(LONG).try_acquire().await),
        EndReason::Released
    );
    let status = remote.status("s").await.unwrap();
    assert_eq!(status.semaphore.in_use, 0);
    drop((engine, remote));
    place.clear().await;
}

/// P3, P9: two answers are lost, and the third is correct.
async fn a_repeated_remote_release_does_not_claim_what_the_holder_finished(place: Place) {
    let engine = place.client().await;
    let (url, _serving) = serve(engine.clone()).await;
    let to = url.strip_prefix("http://").unwrap().parse().unwrap();
    let remote = Lockhouse::connect(losing_two(to).await).await.unwrap();
    finished(&place, &engine).await;
    assert!(!remote.release("a").await.unwrap().now);
    // If the request was not finished, one of the caller's tries releases it.
    granted(&engine, "s", "b", LONG).await;
    let remote = Lockhouse::connect(losing_two(to).await).await.unwrap();
    assert!(remote.release("b").await.unwrap().now);
    drop((engine, remote));
    place.clear().await;
}

/// A proxy that loses the first two answers, each with its connection.
async fn losing_two(to: SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lost = Arc::new(AtomicU32::new(0));
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            tokio::spawn(pass(caller, to, Arc::clone(&lost)));
        }
    });
    url
}

async fn pass(mut caller: TcpStream, to: SocketAddr, lost: Arc<AtomicU32>) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        tokio::select! {
            read = caller.read(&mut asked) => {
                let read = read.unwrap_or(0);
                if read == 0 || server.write_all(&asked[..read]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let read = read.unwrap_or(0);
                let is_lost = lost.fetch_add(1, Ordering::Relaxed) < 2;
                if read == 0 || is_lost || caller.write_all(&answered[..read]).await.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep(Duration::from_secs(60)) => return,
        }
    }
}
