//! SET NX PX, and GET before DEL.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, key};
use super::lock::Lock;
use super::scene::Scene;
use crate::history::{Asked, Promise};

/// The lock may expire, and be taken by another, between the two commands of a release.
pub(super) struct GetDel;

#[async_trait]
impl Lock for GetDel {
    fn name(&self) -> &'static str {
        "get-del"
    }

    fn about(&self) -> &'static str {
        "SET NX PX; release is GET, and DEL if the value is its own"
    }

    fn breaks(&self) -> &'static [(Scene, Promise)] {
        &[(Scene::SlowRelease, Promise::P1)]
    }

    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        at.set_nx_px(asked).await
    }

    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool> {
        let mut get = ::redis::cmd("GET");
        let owner: Option<String> = get.arg(key(asked)).query_async(at.node()).await?;
        if owner.as_ref() != Some(&asked.id) {
            return Ok(false);
        }
        at.between().await;
        let mut delete = ::redis::cmd("DEL");
        delete.arg(key(asked)).query_async(at.node()).await
    }
}
