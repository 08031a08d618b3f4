//! The trait of the locks, and the expected outcome of a lock in a scene.

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

    /// The scenes that it goes through, with their outcomes.
    fn expected(&self) -> &'static [Expected];

    /// The number of servers that it needs.
    fn servers(&self) -> usize {
        1
    }

    /// Takes a permit of the semaphore, if there is room.
    async fn acquire(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool>;

    /// Gives back the permit that was taken as `asked`. Returns whether there was one.
    async fn release(&self, at: &mut Client, asked: &Asked) -> RedisResult<bool>;
}

/// The outcome that is expected of a lock in a scene.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The scene.
    pub scene: Scene,
    /// The promises that the lock breaks there, in their order.
    pub breaks: &'static [Promise],
    /// Why it breaks them, or keeps all.
    pub why: &'static str,
}
