//! SET NX PX, and DEL.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, key};
use super::lock::{Expected, Lock};
use super::scene::Scene;
use crate::history::{Asked, Promise};

/// A late holder deletes the lock of the next.
pub(super) struct Del;

#[async_trait]
impl Lock for Del {
    fn name(&self) -> &'static str {
        "del"
    }

    fn about(&self) -> &'static str {
        "SET NX PX; release is DEL, without a look at the owner"
    }

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::LateRelease,
                breaks: &[Promise::P1, Promise::P4],
                why: "DEL deletes the key of the next holder",
            },
            Expected {
                scene: Scene::DiesHalfway,
                breaks: &[],
                why: "one command sets the key and its TTL, so the key expires",
            },
        ]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        at.set_nx_px(asked).await
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let mut delete = ::redis::cmd("DEL");
        delete.arg(key(asked)).query_async(at.node()).await
    }
}
