//! Batches of commands.

use std::time::Duration;

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

    /// The same batch when those who wait have waited for so much longer.
    pub fn after(&self, longer: Duration) -> Self {
        let mut batch = self.clone();
        for command in &mut batch.commands {
            match command {
                Command::Acquire { turn, .. } => turn.waited += longer,
                Command::Stand { stand, .. } => {
                    if let Some(standing) = &mut stand.standing {
                        standing.seniority = standing.seniority.after(longer);
                    }
                }
                _ => {}
            }
        }
        batch
    }
}
