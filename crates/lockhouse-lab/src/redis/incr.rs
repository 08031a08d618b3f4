//! A counter by INCR and DECR.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, key, ttl_ms};
use super::lock::{Expected, Lock};
use super::scene::Scene;
use crate::history::{Asked, Promise};

/// The counter does not know its holders. It expires as a whole, so a dead client's permit comes back only if nobody
/// else comes, and a late client gives back a permit that is no longer counted.
pub(super) struct Incr;

#[async_trait]
impl Lock for Incr {
    fn name(&self) -> &'static str {
        "incr-decr"
    }

    fn about(&self) -> &'static str {
        "INCR, and DECR if that is too much; every grant extends the expiry of the counter"
    }

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::DeadHolder,
                breaks: &[Promise::P10],
                why: "other clients keep the counter from expiring, and it still counts the dead client",
            },
            Expected {
                scene: Scene::LateRelease,
                breaks: &[Promise::P1, Promise::P4],
                why: "the first counter has expired; the late DECR frees a permit that the next client holds",
            },
        ]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let counted: i64 = by_one("INCR", at, asked).await?;
        if counted > at.capacity {
            by_one("DECR", at, asked).await?;
            return Ok(false);
        }
        let mut expire = ::redis::cmd("PEXPIRE");
        expire.arg(key(asked)).arg(ttl_ms(asked));
        expire.query_async(at.node()).await
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        by_one("DECR", at, asked).await.map(|_| true)
    }
}

async fn by_one(command: &str, at: &mut Client, asked: &Asked) -> RedisResult<i64> {
    let mut command = ::redis::cmd(command);
    command.arg(key(asked)).query_async(at.node()).await
}
