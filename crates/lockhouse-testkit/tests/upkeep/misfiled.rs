//! The repair of an index on Redis that was changed past the store.

use lockhouse_testkit::place;
use lockhouse_testkit::redis::{connect, prefix};
use std::time::Duration;

use tokio::time::sleep;

/// P10. A refusal finds expired requests by the index of its semaphore. It does not find requests that the index lacks, or has at
/// another time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_files_requests_so_that_a_refusal_finds_them() {
    let Some(place) = place::redis().await else {
        return;
    };
    let lockhouse = place.client().await;
    lockhouse.define("a", 2).await.unwrap();
    for id in ["x", "y"] {
        let ask = lockhouse.request_with_id(id).permits("a", 1);
        ask.ttl(Duration::from_secs(2))
            .acquire()
            .await
            .unwrap()
            .forget();
    }
    let mut server = connect(place.url()).await;
    let index = format!("{}expiring:a", prefix(place.url()));
    for change in [["ZREM", "x"].as_slice(), &["ZADD", "9000000000000000", "y"]] {
        let mut command = redis::cmd(change[0]);
        let () = command
            .arg(&index)
            .arg(&change[1..])
            .query_async(&mut server)
            .await
            .unwrap();
    }
    let findings = lockhouse.verify().await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0].promise == "P10" && findings[0].can_be_repaired,
        "{findings:?}"
    );
    let repaired = lockhouse.repair(&findings).await.unwrap();
    assert_eq!(repaired.len(), 1, "{repaired:?}");
    assert_eq!(lockhouse.repair(&findings).await.unwrap(), []);
    assert!(lockhouse.verify().await.unwrap().is_empty());
    sleep(Duration::from_millis(2_100)).await;
    let both = lockhouse.request_with_id("z").permits("a", 2);
    both.acquire().await.unwrap().release().await.unwrap();
    place.clear().await;
}
