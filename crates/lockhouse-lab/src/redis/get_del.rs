//! SET NX PX, and GET before DEL.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::{Client, key};
use super::lock::{Expected, Lock};
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

    fn expected(&self) -> &'static [Expected] {
        &[
            Expected {
                scene: Scene::SlowRelease,
                breaks: &[Promise::P1],
                why: "the lock expires between GET and DEL, and DEL deletes the key of the next holder",
            },
            Expected {
                scene: Scene::LateRelease,
                breaks: &[],
                why: "GET shows another owner, so there is no DEL",
            },
        ]
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
        at.weak_point().await;
        let mut delete = ::redis::cmd("DEL");
        delete.arg(key(asked)).query_async(at.node()).await
    }
}
