//! Batches of commands.

use crate::{Command, Footprint};

/// Commands to decide and save in one commit.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What to do, in this order.
    pub commands: Vec<Command>,
    /// The rows that the commands touch, as far as they are known beforehand.
    pub footprint: Footprint,
}

impl Batch {
    /// A batch of `commands` that touch what they name, and nothing else that is known yet.
    pub fn new(commands: Vec<Command>) -> Self {
        let footprint = Footprint::of(&commands, []);
        Self {
            commands,
            footprint,
        }
    }
}
