//! A Redis server whose memory is full.

use std::time::Duration;

use lockhouse::Code;
use lockhouse_testkit::private_server::PrivateServer;
use lockhouse_testkit::redis::connect;

/// Another application of the server may have filled its memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_renews_and_releases() {
    for server in ["redis", "valkey"] {
        let Some(server) = PrivateServer::start(server) else {
            return;
        };
        let place = server.place().await;
        let lockhouse = place.client().await;
        lockhouse.define("a", 2).await.unwrap();
        let [kept, released] = ["kept", "released"].map(|id| lockhouse.request_with_id(id));
        let kept = kept.permits("a", 1).acquire().await.unwrap();
        let released = released.permits("a", 1).acquire().await.unwrap();
        let session = Duration::from_secs(60);
        lockhouse.heartbeat("owner", session).await.unwrap();

        let mut connection = connect(place.url()).await;
        let mut limit = async |bytes: u32| {
            let mut limit = redis::cmd("CONFIG");
            limit.arg("SET").arg("maxmemory").arg(bytes);
            let () = limit.query_async(&mut connection).await.unwrap();
        };
        limit(1).await;
        lockhouse.renew("kept", None).await.unwrap();
        released.release().await.unwrap();
        lockhouse.heartbeat("owner", session).await.unwrap();
        let refused = lockhouse.semaphore("a").try_acquire().await.unwrap_err();
        assert_eq!(refused.code(), Code::StoreUnavailable);
        assert!(refused.to_string().contains("out of memory"), "{refused}");
        assert_eq!(lockhouse.goodbye("owner").await.unwrap(), 0);
        limit(0).await;
        let permit = lockhouse.semaphore("a").try_acquire().await.unwrap();
        permit.release().await.unwrap();
        kept.release().await.unwrap();
        place.clear().await;
    }
}
