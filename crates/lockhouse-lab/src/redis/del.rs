//! SET NX PX, and DEL.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, key};
use super::lock::Lock;
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
        "SET NX PX; release is DEL, whoever the owner is"
    }

    fn breaks(&self) -> &'static [(Scene, Promise)] {
        &[
            (Scene::LateRelease, Promise::P1),
            (Scene::LateRelease, Promise::P4),
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
