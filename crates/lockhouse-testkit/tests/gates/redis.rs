//! The gate as a script for Redis and Valkey.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, RedisError, Script};
use lockhouse::Permit;
use lockhouse_gate::redis::{STALE, script};
use lockhouse_testkit::place::{self, Place};

const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_paused_writer_is_refused_and_writes_nothing_on_redis() {
    if let Some(place) = place::redis().await {
        a_paused_writer_is_refused_and_writes_nothing(place).await;
    }
}

#[tokio::test]
async fn a_paused_writer_is_refused_and_writes_nothing_on_valkey() {
    if let Some(place) = place::valkey().await {
        a_paused_writer_is_refused_and_writes_nothing(place).await;
    }
}

#[tokio::test]
async fn a_writer_paused_past_its_ttl_is_refused_at_capacity_4_on_redis() {
    if let Some(place) = place::redis().await {
        a_writer_paused_past_its_ttl_is_refused_at_capacity_4(place).await;
    }
}

#[tokio::test]
async fn a_writer_paused_past_its_ttl_is_refused_at_capacity_4_on_valkey() {
    if let Some(place) = place::valkey().await {
        a_writer_paused_past_its_ttl_is_refused_at_capacity_4(place).await;
    }
}

/// A resource that is kept in Redis.
struct Resource {
    connection: MultiplexedConnection,
    publish: Script,
    keys: [String; 2],
}

impl Resource {
    async fn open(place: &Place) -> Self {
        let (server, query) = place.url().split_once('?').unwrap();
        let name = query.trim_start_matches("namespace=");
        let client = Client::open(server).unwrap();
        Self {
            connection: client.get_multiplexed_async_connection().await.unwrap(),
            publish: Script::new(&script("return redis.call('SET', KEYS[2], ARGV[3])")),
            keys: [format!("gate:{{{name}}}"), format!("report:{{{name}}}")],
        }
    }

    async fn publish(&mut self, slot: u32, fence: &str, text: &str) -> Result<(), RedisError> {
        let [gate, report] = &self.keys;
        let mut call = self.publish.key(gate);
        let call = call.key(report).arg(slot).arg(fence).arg(text);
        call.invoke_async(&mut self.connection).await
    }

    /// Publishes as the holder of `permit`, with its slot and fence.
    async fn publish_as(&mut self, permit: &Permit, text: &str) -> Result<(), RedisError> {
        let (slot, fence) = (permit.slots("gpu")[0], permit.fence("gpu").to_string());
        self.publish(slot, &fence, text).await
    }

    async fn report(&mut self) -> String {
        let get = ::redis::cmd("GET").arg(&self.keys[1]).to_owned();
        get.query_async(&mut self.connection).await.unwrap()
    }
}

async fn a_paused_writer_is_refused_and_writes_nothing(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("report", 1).await.unwrap();
    let mut resource = Resource::open(&place).await;
    let request = lockhouse.request().permits("report", 1).ttl(TTL);
    let paused = request.acquire().await.unwrap();
    let stale = paused.fence("report").to_string();
    resource.publish(0, &stale, "in time").await.unwrap();
    paused.forget();
    let next = lockhouse.semaphore("report").acquire().await.unwrap();
    let fence = next.fence("report").to_string();
    resource.publish(0, &fence, "next").await.unwrap();
    let refused = resource.publish(0, &stale, "late").await.unwrap_err();
    assert_eq!(refused.code(), Some(STALE), "{refused}");
    assert_eq!(resource.report().await, "next");
    resource.publish(0, &fence, "next again").await.unwrap();
    assert_eq!(resource.report().await, "next again");

    // Fences are compared as numbers, also fences that a double cannot hold.
    for (fence, passes) in [
        ("9", true),
        ("10", true),
        ("9", false),
        ("9007199254740993", true),
        ("9007199254740992", false),
        ("18446744073709551615", true),
        ("18446744073709551614", false),
        ("", false),
        ("-1", false),
        ("1e30", false),
    ] {
        let passed = resource.publish(3, fence, "slot 3").await;
        assert_eq!(passed.is_ok(), passes, "{fence}");
    }
    let drop_keys = ::redis::cmd("DEL").arg(&resource.keys).to_owned();
    let dropped: u32 = drop_keys
        .query_async(&mut resource.connection)
        .await
        .unwrap();
    assert_eq!(dropped, 2);
    drop(next);
    drop(lockhouse);
    place.clear().await;
}

async fn a_writer_paused_past_its_ttl_is_refused_at_capacity_4(place: Place) {
    let lockhouse = place.client().await;
    lockhouse.define("gpu", 4).slots().await.unwrap();
    let mut resource = Resource::open(&place).await;
    let request = lockhouse.request().permits("gpu", 1).ttl(TTL);
    let paused = request.acquire().await.unwrap();
    resource.publish_as(&paused, "in time").await.unwrap();
    let (slot, stale) = (paused.slots("gpu")[0], paused.fence("gpu").to_string());
    paused.forget();
    // The last holder is granted the slot that the paused holder has lost.
    let mut holders = Vec::new();
    for _ in 0..4 {
        holders.push(lockhouse.semaphore("gpu").acquire().await.unwrap());
    }
    assert_eq!(holders[3].slots("gpu"), [slot]);
    for holder in holders.iter().rev() {
        let text = format!("slot {}", holder.slots("gpu")[0]);
        // Each write passes, despite the lower fence.
        resource.publish_as(holder, &text).await.unwrap();
        assert_eq!(resource.report().await, text);
    }
    let last = resource.report().await;
    let refused = resource.publish(slot, &stale, "late").await.unwrap_err();
    assert_eq!(refused.code(), Some(STALE), "{refused}");
    assert_eq!(resource.report().await, last);
    let drop_keys = ::redis::cmd("DEL").arg(&resource.keys).to_owned();
    let _: u32 = drop_keys
        .query_async(&mut resource.connection)
        .await
        .unwrap();
    drop(holders);
    drop(lockhouse);
    place.clear().await;
}
