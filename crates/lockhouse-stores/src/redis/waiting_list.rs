//! The published lists of waiters.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{Error, SHOWN_FOR, Shown, ShownAt, ShownWaiter, WaitingList};
use lockhouse_core::{ProcessId, SemaphoreName, Timestamp};
use redis::Script;

use super::{Redis, rows};
use crate::shown;
use crate::time::before;

static SHOW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/show.lua")));

#[async_trait]
impl WaitingList for Redis {
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        let mut pieces = shown::pieces(waiting);
        // The last piece also deletes the lists that are gone.
        let last = pieces.pop().unwrap_or_default();
        let pieces = pieces.into_iter().map(|piece| (piece, &[][..]));
        for (piece, gone) in pieces.chain([(last, gone)]) {
            let mut script = SHOW.key(self.keys.of("shown"));
            script.arg(self.keys.of("")).arg(process.to_string());
            script.arg(piece.len());
            for (name, waiters) in piece {
                script.arg(name.as_str()).arg(waiters);
            }
            for name in gone {
                script.arg(name.as_str());
            }
            let () = self.connections.read(&script).await?;
        }
        Ok(())
    }

    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        let now = self.now().await?;
        let oldest = before(now, SHOWN_FOR);
        let lists = self.lists(name).await?.into_iter();
        let lists = lists.filter_map(|(process, list)| {
            let (process, written, waiters) = parsed(&process, &list)?;
            (written >= oldest).then(|| (process, shown::parse(waiters, written)))
        });
        let processes = lists.collect();
        Ok(Shown { now, processes })
    }

    async fn shown_at(&self, names: &[SemaphoreName]) -> Result<ShownAt, Error> {
        let now = self.now().await?;
        let mut lists = Vec::new();
        for name in names {
            for (process, list) in self.lists(name).await? {
                let list = parsed(&process, &list);
                lists.extend(list.map(|(process, written, _)| (name.clone(), process, written)));
            }
        }
        Ok(ShownAt { now, lists })
    }

    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        self.delete("shown", age, limit).await
    }
}

impl Redis {
    /// The list of each process for `name`, as stored.
    async fn lists(&self, name: &SemaphoreName) -> Result<BTreeMap<String, String>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.each("waiting", name.as_str()));
        let context = "reading the lists of waiters";
        self.connections.ask(&command, context).await
    }
}

/// The process, when it wrote the list, and the waiters.
fn parsed<'a>(process: &str, list: &'a str) -> Option<(ProcessId, Timestamp, &'a str)> {
    let (written, waiters) = list.split_once(' ')?;
    let written = rows::time(written.parse().ok()?).ok()?;
    Some((process.parse().ok()?, written, waiters))
}
