//! P1 over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::server::Server;
use tokio::task::{JoinSet, yield_now};

const CAPACITY: u32 = 4;

/// P1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_never_hold_more_than_the_capacity() {
    let server = Server::start().await;
    server.lockhouse.define("a", CAPACITY).await.unwrap();
    let holding = Arc::new(AtomicU32::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..64 {
        let client = server.client().await;
        let holding = Arc::clone(&holding);
        clients.spawn(async move {
            for _ in 0..5 {
                let permit = client.semaphore("a").acquire().await.unwrap();
                assert!(holding.fetch_add(1, SeqCst) < CAPACITY);
                yield_now().await;
                holding.fetch_sub(1, SeqCst);
                assert!(permit.release().await.unwrap().now);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let status = server.lockhouse.status("a").await.unwrap();
    assert_eq!((status.semaphore.in_use, status.waiting), (0, 0));
    assert_eq!(status.semaphore.fence, 64 * 5, "one grant an acquire");
}
