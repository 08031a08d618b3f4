//! The traits of a contender and of its clients.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::Failed;
use crate::measured::{Server, Work};
use crate::shape::{Ask, Shape};

/// A way to acquire and release, with clients on it.
#[async_trait]
pub trait Contender: Send + Sync {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Makes what `shape` needs: tables, semaphores, and what is held and has ended before.
    async fn prepare(&self, shape: &Shape) -> Result<(), Failed>;

    /// Ends [`prepare`](Contender::prepare) before all is made, as soon as nothing is under way.
    fn interrupt(&self) {}

    /// Client `number`, connected.
    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed>;

    /// The process that client `number` calls. Two clients of one process hand a permit over without the store. By default
    /// each client has its own connection, and is a separate process.
    fn process_of(&self, number: usize) -> usize {
        number
    }

    /// The work of the database so far, if it can be counted.
    fn work(&self) -> Option<Work> {
        None
    }

    /// Which server it is on, and how durable it is.
    async fn server(&self) -> Result<Server, Failed>;

    /// Removes what [`prepare`](Contender::prepare) made.
    async fn clear(&self) -> Result<(), Failed>;
}

/// One of the clients that acquire and release in turn.
#[async_trait]
pub trait Client: Send {
    /// Acquires what `ask` says.
    async fn acquire(&mut self, ask: &Ask<'_>) -> Result<(), Failure>;

    /// Gives back what was acquired last.
    async fn release(&mut self) -> Result<(), Failure>;

    /// The errors that the client itself retried, by kind.
    fn retries(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

/// An error as a caller sees it.
#[derive(Debug)]
pub struct Failure {
    /// The kind by which to count it.
    pub kind: String,
    /// All of it.
    pub text: String,
}

impl Failure {
    /// A failure of `kind`.
    pub fn new(kind: impl Into<String>, error: impl ToString) -> Self {
        Self {
            kind: kind.into(),
            text: error.to_string(),
        }
    }
}
