//! A Redis server that takes no more connections.

use std::time::{Duration, Instant};

use lockhouse_core::store::Kind;
use lockhouse_testkit::private_server::PrivateServer;
use lockhouse_testkit::redis::connect;

/// A caller that waits for a connection harms nobody, so the error differs from that of a server that is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_a_connection_left_is_found_crowded() {
    let Some(server) = PrivateServer::start("redis") else {
        return;
    };
    let place = server.place().await;
    place.client().await;
    let mut taken = connect(place.url()).await;
    let mut one = redis::cmd("CONFIG");
    one.arg("SET").arg("maxclients").arg(1);
    let () = one.query_async(&mut taken).await.unwrap();
    let store = lockhouse_stores::open(place.url()).unwrap();
    let until = Instant::now() + Duration::from_secs(9);
    // Closed connections still count for a moment.
    let error = loop {
        match store.ready().await {
            Err(error) if error.kind() == Kind::Crowded => break error,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
    };
    assert!(error.to_string().contains("connecting to"), "{error}");
    let mut many = redis::cmd("CONFIG");
    many.arg("SET").arg("maxclients").arg(100);
    let () = many.query_async(&mut taken).await.unwrap();
    store.ready().await.unwrap();
}
