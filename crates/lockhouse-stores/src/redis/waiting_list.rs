//! The waiters that processes show.

use lockhouse_core::store::{Error, SHOWN_FOR, Shown, ShownWaiter};
use lockhouse_core::{ProcessId, SemaphoreName};

use super::connection::SHOW;
use super::{Inner, answer, rows};
use crate::shown;

const CONTEXT: &str = "showing who waits";

impl Inner {
    pub(super) async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        let mut pieces = shown::pieces(waiting);
        // What is gone goes with the last.
        let last = pieces.pop().unwrap_or_default();
        for piece in pieces {
            self.show_piece(process, &piece, &[]).await?;
        }
        self.show_piece(process, &last, gone).await
    }

    async fn show_piece(
        &self,
        process: ProcessId,
        piece: &[(&SemaphoreName, String)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        let mut arguments = vec![
            self.keys.prefix().to_owned(),
            process.to_string(),
            piece.len().to_string(),
        ];
        for (name, waiters) in piece {
            arguments.extend([name.to_string(), waiters.clone()]);
        }
        arguments.extend(gone.iter().map(SemaphoreName::to_string));
        let keys = [self.keys.of("shown")];
        self.read(&SHOW, &keys, &arguments).await.map(drop)
    }

    pub(super) async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        let now = self.now().await?;
        let oldest = now.saturating_sub(SHOWN_FOR).unwrap_or(now);
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.each("waiting", name.as_str()));
        let found = self.connections.ask(&command, CONTEXT).await?;
        let mut processes = Vec::new();
        for pair in answer::texts(found)?.chunks_exact(2) {
            let written = pair[1].split_once(' ').and_then(|(written, waiters)| {
                let process: ProcessId = pair[0].parse().ok()?;
                let written = rows::time(written.parse().ok()?).ok()?;
                Some((process, written, waiters))
            });
            if let Some((process, written, waiters)) = written
                && written >= oldest
            {
                processes.push((process, shown::parse(waiters, written)));
            }
        }
        Ok(Shown { now, processes })
    }
}
