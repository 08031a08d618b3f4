//! The shape of a load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A closed loop: each client acquires, holds, releases, and begins again as soon as it has been
/// answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many at once.
    pub clients: usize,
    /// How many semaphores there are.
    pub semaphores: usize,
    /// On how many of them, drawn at random and in random order, each ask is.
    pub each: usize,
    /// How many permits of each semaphore an ask is for.
    pub count: u32,
    /// Of each semaphore; unless said, there is room for everybody.
    pub capacity: Option<u32>,
    /// Whether each semaphore has slots.
    #[serde(default)]
    pub slots: bool,
    /// How long permits are held, in milliseconds.
    pub hold_ms: u64,
    /// How long a client rests after it has released, in milliseconds.
    #[serde(default)]
    pub pause_ms: u64,
    /// Requests that hold a permit before it begins, and go on doing so.
    pub held: u32,
    /// Requests that have ended before it begins.
    pub ended: u32,
    /// Milliseconds before what is measured.
    pub warm_up_ms: u64,
    /// Milliseconds that are measured.
    pub time_ms: u64,
    /// The seed of the clients' choices.
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            clients: 64,
            semaphores: 1,
            each: 1,
            count: 1,
            capacity: None,
            slots: false,
            hold_ms: 0,
            pause_ms: 0,
            held: 0,
            ended: 0,
            warm_up_ms: 1_000,
            time_ms: 5_000,
            seed: 1,
        }
    }
}

impl Shape {
    /// The capacity that each semaphore is given.
    pub fn capacity(&self) -> u32 {
        let clients = u32::try_from(self.clients).unwrap_or(u32::MAX);
        let everybody = clients.saturating_mul(self.count).saturating_add(self.held);
        self.capacity.unwrap_or(everybody).min(i32::MAX as u32)
    }

    /// How long permits are held.
    pub fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_ms)
    }

    /// How long a client rests after it has released.
    pub fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }

    /// The time of the warm-up.
    pub fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up_ms)
    }

    /// The time that is measured.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }
}

/// One ask: under which id, and on which semaphores, by their numbers.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// A fresh one every time.
    pub external_id: &'a str,
    /// Each once, in the order in which the client happens to name them.
    pub semaphores: &'a [usize],
    /// How many permits of each.
    pub count: u32,
}
