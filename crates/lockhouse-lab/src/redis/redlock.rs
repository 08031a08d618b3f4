//! Redlock: a majority of independent servers.

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisResult, Script};
use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::client::{Client, delete_own, key, set_nx_px, ttl_ms};
use super::lock::{Expected, Lock};
use super::scene::Scene;
use crate::history::{Asked, Promise};

const SERVERS: usize = 5;

/// So many of the servers have to say yes.
const MAJORITY: usize = 3;

/// Adds the id to the set of holders if there is room, by the server's clock.
const ADD: &str = "local time = redis.call('TIME') \
                   local now = time[1] * 1000 + math.floor(time[2] / 1000) \
                   redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) \
                   if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end \
                   return redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])";

/// Redlock as a mutex: `SET NX PX` on each server. There is no fence. The lock needs servers that remember their answers
/// and whose clocks run alike.
pub(super) struct Redlock;

/// Redlock with counts: each server lets in as many clients as there are permits. Majorities of different servers may add
/// up to more.
pub(super) struct RedlockCounts;

#[async_trait]
impl Lock for Redlock {
    fn name(&self) -> &'static str {
        "redlock"
    }

    fn about(&self) -> &'static str {
        "SET NX PX on a majority of five servers, as a mutex"
    }

    fn servers(&self) -> usize {
        SERVERS
    }

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::PausedHolder,
                breaks: &[Promise::P7],
                why: "there is no fence by which the resource could refuse the late write",
            },
            Expected {
                scene: Scene::LostNode,
                breaks: &[Promise::P1],
                why: "the server has forgotten the first client, and says yes to the second one",
            },
            Expected {
                scene: Scene::JumpedClock,
                breaks: &[Promise::P1, Promise::P7],
                why: "the key expires at once on that server, which says yes to the second client; no fence tells the two apart",
            },
            Expected {
                scene: Scene::LateRelease,
                breaks: &[],
                why: "the script finds another owner on each server, and deletes nothing",
            },
            Expected {
                scene: Scene::SlowRelease,
                breaks: &[],
                why: "the script looks and deletes in one step, so nothing comes in between",
            },
        ]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let begun = Instant::now();
        let taken = at.nodes.iter_mut().map(|node| set_nx_px(node, asked));
        let taken = join_all(taken).await;
        finish(self, at, asked, begun, taken).await
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let nodes = at.nodes.iter_mut();
        let deleted = nodes.map(|node| delete_own(node, asked, &asked.id));
        let deleted = join_all(deleted).await;
        Ok(said_yes(&deleted) > 0)
    }
}

#[async_trait]
impl Lock for RedlockCounts {
    fn name(&self) -> &'static str {
        "redlock-counts"
    }

    fn about(&self) -> &'static str {
        "a set of holders on a majority of five servers, as a semaphore"
    }

    fn servers(&self) -> usize {
        SERVERS
    }

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::Reordered,
                breaks: &[Promise::P1],
                why: "each server says yes to the first two that it hears; in sum, each client has a majority",
            },
            Expected {
                scene: Scene::LateRelease,
                breaks: &[],
                why: "each holder has a separate entry in the set, and removes only that one",
            },
        ]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let begun = Instant::now();
        let (turns, capacity) = (at.turns.clone(), at.capacity);
        let taken = at.nodes.iter_mut().enumerate().map(async |(i, node)| {
            if let Some((turns, client)) = &turns {
                turns.wait(i, *client).await;
            }
            let added = add(node, asked, capacity).await;
            if let Some((turns, _)) = &turns {
                turns.next(i);
            }
            added
        });
        let taken = join_all(taken).await;
        finish(self, at, asked, begun, taken).await
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let removed = at.nodes.iter_mut().map(async |node| {
            let mut remove = ::redis::cmd("ZREM");
            remove.arg(key(asked)).arg(&asked.id);
            remove.query_async::<bool>(node).await
        });
        let removed = join_all(removed).await;
        Ok(said_yes(&removed) > 0)
    }
}

async fn add(node: &mut MultiplexedConnection, asked: &Asked, capacity: i64) -> RedisResult<bool> {
    let script = Script::new(ADD);
    let mut add = script.key(key(asked));
    add.arg(&asked.id).arg(capacity).arg(ttl_ms(asked));
    add.invoke_async(node).await
}

/// Whether a majority said yes in time. If not, the client releases the permits that it took.
async fn finish(
    lock: &dyn Lock,
    at: &mut Client,
    asked: &Asked,
    begun: Instant,
    taken: Vec<RedisResult<bool>>,
) -> RedisResult<bool> {
    let took = begun.elapsed().as_millis();
    let in_time = i64::try_from(took).is_ok_and(|took| took < ttl_ms(asked));
    if said_yes(&taken) >= MAJORITY && in_time {
        return Ok(true);
    }
    lock.release(at, asked).await?;
    Ok(false)
}

/// A server that does not answer has not said yes.
fn said_yes(answers: &[RedisResult<bool>]) -> usize {
    let yes = answers.iter().filter(|answer| matches!(answer, Ok(true)));
    yes.count()
}
