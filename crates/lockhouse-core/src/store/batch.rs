//! Batches of commands.

use std::time::Duration;

use crate::{Command, Footprint};

/// Commands to decide and save in one commit.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The commands, in the order in which to decide them.
    pub commands: Vec<Command>,
    /// The rows that the commands touch, as far as they are known before loading.
    pub footprint: Footprint,
}

impl Batch {
    /// A batch of `commands` that are known to touch only the rows that they name.
    pub fn new(commands: Vec<Command>) -> Self {
        let footprint = Footprint::of(&commands, []);
        Self {
            commands,
            footprint,
        }
    }

    /// The same batch after its asks have waited for `longer`.
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
