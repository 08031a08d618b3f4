//! A store of any kind with a broken line of all processes, or a broken purge.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error, FullStore, Layer, Purge};
use lockhouse_core::{Command, Outcome, Saved, Stand};

use super::order::{forget, level};

/// A way to break a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No process is entered in the line.
    NeverRegisters,
    /// Every grant passes over all processes.
    PassesAllOver,
    /// Priority does not count between processes.
    IgnoresPriority,
    /// A purge deletes ended requests of any age.
    PurgesAtAnyAge,
}

/// The prefixes of a store's URL.
const ALL: [(&str, Flaw); 4] = [
    ("unregistered+", Flaw::NeverRegisters),
    ("passed-over+", Flaw::PassesAllOver),
    ("without-priority+", Flaw::IgnoresPriority),
    ("without-age+", Flaw::PurgesAtAnyAge),
];

impl Flaw {
    /// The way that the prefix of `url` names, and the rest of `url`.
    pub(super) fn of(url: &str) -> Option<(Self, &str)> {
        let mut all = ALL.into_iter();
        all.find_map(|(prefix, flaw)| Some((flaw, url.strip_prefix(prefix)?)))
    }

    /// The prefix of a store's URL that breaks the line in this way.
    pub fn prefix(self) -> &'static str {
        let mut all = ALL.into_iter();
        all.find_map(|(prefix, flaw)| (flaw == self).then_some(prefix))
            .expect("ALL has every flaw")
    }

    /// Breaks `store`.
    pub(super) fn over(self, store: Arc<dyn FullStore>) -> Arc<dyn FullStore> {
        Arc::new(FlawedStore { store, is: self })
    }
}

#[derive(Debug)]
struct FlawedStore {
    store: Arc<dyn FullStore>,
    is: Flaw,
}

impl FlawedStore {
    /// Removes the entries of all processes.
    async fn pass_over_all(&self, batch: &Batch) -> Result<(), Error> {
        let names: Vec<_> = batch.footprint.semaphores.iter().cloned().collect();
        let mut stands = Vec::new();
        for row in self.store.named(&names).await? {
            for entry in row.line.entries() {
                let stand = Stand {
                    process: entry.process,
                    standing: None,
                    saved: Saved::Always,
                };
                let name = row.name.clone();
                stands.push(Command::Stand { name, stand });
            }
        }
        if !stands.is_empty() {
            self.store.transact(&Batch::new(stands)).await?;
        }
        Ok(())
    }
}

impl Layer for FlawedStore {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let change: fn(&mut Command) = match self.is {
            Flaw::NeverRegisters => forget,
            Flaw::IgnoresPriority => level,
            Flaw::PurgesAtAnyAge => |_| (),
            Flaw::PassesAllOver => {
                if batch.commands.iter().any(|command| command.ask().is_some()) {
                    self.pass_over_all(batch).await?;
                }
                |_| ()
            }
        };
        let mut batch = batch.clone();
        batch.commands.iter_mut().for_each(change);
        self.store.transact(&batch).await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        let what = match (self.is, what) {
            (Flaw::PurgesAtAnyAge, Purge::Requests { .. }) => Purge::Requests {
                age: Duration::ZERO,
            },
            (_, what) => what,
        };
        self.store.purge(what, limit).await
    }
}
