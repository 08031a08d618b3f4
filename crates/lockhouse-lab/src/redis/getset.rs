//! SETNX of a time, and GETSET when it has passed.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, delete_own, key, ttl_ms};
use super::lock::{Expected, Lock};
use super::scene::Scene;
use crate::history::{Asked, Promise};

/// The value is the time at which the lock expires, by its holder's clock. A client that finds the lock expired swaps in
/// a new value, and has the lock if it swapped out the value that it had read. A client whose swap failed has still
/// changed the value.
pub(super) struct Getset;

#[async_trait]
impl Lock for Getset {
    fn name(&self) -> &'static str {
        "setnx-getset"
    }

    fn about(&self) -> &'static str {
        "SETNX with the time of expiry by the client's clock; GETSET once it has passed"
    }

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::FastClock,
                breaks: &[Promise::P1],
                why: "by the fast clock the lock has expired, so GETSET takes it from its holder",
            },
            Expected {
                scene: Scene::FoundExpiredByTwo,
                breaks: &[Promise::P10],
                why: "the loser's GETSET changes the winner's value, so the winner cannot release",
            },
            Expected {
                scene: Scene::DiesHalfway,
                breaks: &[],
                why: "the value says when the lock expires, so the next client takes it then",
            },
        ]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let expires_at = (at.now_ms() + ttl_ms(asked)).to_string();
        at.written.insert(asked.id.clone(), expires_at.clone());
        let mut set = ::redis::cmd("SETNX");
        set.arg(key(asked)).arg(&expires_at);
        if set.query_async(at.node()).await? {
            return Ok(true);
        }
        let mut get = ::redis::cmd("GET");
        let read: Option<i64> = get.arg(key(asked)).query_async(at.node()).await?;
        if read.is_some_and(|read| read > at.now_ms()) {
            return Ok(false);
        }
        at.weak_point().await;
        let mut swap = ::redis::cmd("GETSET");
        swap.arg(key(asked)).arg(&expires_at);
        let was: Option<i64> = swap.query_async(at.node()).await?;
        Ok(was == read)
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let written = at.written.get(&asked.id).cloned().unwrap_or_default();
        delete_own(at.node(), asked, &written).await
    }
}
