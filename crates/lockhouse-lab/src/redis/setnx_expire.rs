//! SETNX, then EXPIRE.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, delete_own, key, ttl_ms};
use super::lock::{Expected, Lock};
use super::scene::Scene;
use crate::history::{Asked, Promise};

/// Two commands: a client that dies in between leaves a key that never expires.
pub(super) struct SetnxExpire;

#[async_trait]
impl Lock for SetnxExpire {
    fn name(&self) -> &'static str {
        "setnx-expire"
    }

    fn about(&self) -> &'static str {
        "SETNX, then EXPIRE; a script deletes the key if it is still its own"
    }

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::DiesHalfway,
                breaks: &[Promise::P10],
                why: "the client dies before EXPIRE, so the key never expires",
            },
            Expected {
                scene: Scene::LateRelease,
                breaks: &[],
                why: "the script finds another owner, and deletes nothing",
            },
        ]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let mut set = ::redis::cmd("SETNX");
        set.arg(key(asked)).arg(&asked.id);
        if !set.query_async(at.node()).await? {
            return Ok(false);
        }
        at.weak_point().await;
        let mut expire = ::redis::cmd("PEXPIRE");
        expire.arg(key(asked)).arg(ttl_ms(asked));
        expire.query_async(at.node()).await
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        delete_own(at.node(), asked, &asked.id).await
    }
}
