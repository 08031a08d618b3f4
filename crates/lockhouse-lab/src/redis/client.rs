//! A client of a lock, and the breakpoint that stops it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client as Opened, RedisResult, Script};
use tokio::sync::Semaphore;

use super::turns::Turns;
use crate::history::Asked;

/// How long a server may take to answer, also on a busy machine. In every scene all servers answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Deletes a key that still has the value.
const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      return redis.call('DEL', KEYS[1]) else return 0 end";

/// A client of a lock.
pub struct Client {
    /// A connection to each server that it reaches.
    pub(super) nodes: Vec<MultiplexedConnection>,
    pub(super) capacity: i64,
    /// How far its clock is off.
    clock_off: Duration,
    /// The breakpoint at which the client stops, once.
    pub(super) breakpoint: Option<Arc<Breakpoint>>,
    /// The order of its messages among those of other clients.
    pub(super) turns: Option<(Arc<Turns>, usize)>,
    /// The values that it has written, by the id of the ask.
    pub(super) written: HashMap<String, String>,
}

impl Client {
    /// A client of the servers of `urls`, whose clock is `clock_off` ahead.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn open(urls: &[String], capacity: i64, clock_off: Duration) -> RedisResult<Self> {
        let mut nodes = Vec::new();
        for url in urls {
            nodes.push(connect(url).await?);
        }
        Ok(Self {
            nodes,
            capacity,
            clock_off,
            breakpoint: None,
            turns: None,
            written: HashMap::new(),
        })
    }

    /// The only server of a lock that needs one.
    pub(super) fn node(&mut self) -> &mut MultiplexedConnection {
        &mut self.nodes[0]
    }

    /// The weak point of the lock: stops here if a breakpoint is set.
    pub(super) async fn weak_point(&mut self) {
        if let Some(breakpoint) = self.breakpoint.take() {
            breakpoint.stop().await;
        }
    }

    /// The time by this client's own clock.
    pub(super) fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default() + self.clock_off;
        i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
    }

    /// `SET key id NX PX ttl`.
    pub(super) async fn set_nx_px(&mut self, asked: &Asked) -> RedisResult<bool> {
        set_nx_px(self.node(), asked).await
    }
}

/// Stops one client until it is resumed.
#[derive(Debug)]
pub struct Breakpoint {
    reached: Semaphore,
    resumed: Semaphore,
}

impl Breakpoint {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            reached: Semaphore::new(0),
            resumed: Semaphore::new(0),
        })
    }

    async fn stop(&self) {
        self.reached.add_permits(1);
        // Nothing closes this semaphore.
        let _ = self.resumed.acquire().await;
    }

    pub(super) async fn reached(&self) {
        let _ = self.reached.acquire().await;
    }

    pub(super) fn resume(&self) {
        self.resumed.add_permits(1);
    }
}

/// A connection to the server at `url`.
pub(super) async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER));
    let opened = Opened::open(url)?;
    let connecting = opened.get_multiplexed_async_connection_with_config(&config);
    connecting.await
}

pub(super) async fn set_nx_px(
    node: &mut MultiplexedConnection,
    asked: &Asked,
) -> RedisResult<bool> {
    let mut set = ::redis::cmd("SET");
    set.arg(key(asked)).arg(&asked.id).arg("NX");
    let set: Option<String> = set.arg("PX").arg(ttl_ms(asked)).query_async(node).await?;
    Ok(set.is_some())
}

pub(super) async fn delete_own(
    node: &mut MultiplexedConnection,
    asked: &Asked,
    value: &str,
) -> RedisResult<bool> {
    let script = Script::new(DELETE);
    let mut delete = script.key(key(asked));
    let deleted: i64 = delete.arg(value).invoke_async(node).await?;
    Ok(deleted > 0)
}

pub(super) fn key(asked: &Asked) -> &str {
    &asked.permits[0].0
}

pub(super) fn ttl_ms(asked: &Asked) -> i64 {
    asked.ttl() / 1_000
}
