//! The trait of the locks.

use ::redis::RedisResult;
use async_trait::async_trait;

use super::client::Client;
use super::scene::Scene;
use crate::history::{Asked, Promise};

/// A lock on Redis.
#[async_trait]
pub trait Lock: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// A description in one line.
    fn about(&self) -> &'static str;

    /// The promises that it breaks, and in which scene.
    fn breaks(&self) -> &'static [(Scene, Promise)];

    /// Takes a permit of the semaphore, if there is room.
    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool>;

    /// Gives back the permit that was taken as `asked`; whether there was one.
    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool>;
}
