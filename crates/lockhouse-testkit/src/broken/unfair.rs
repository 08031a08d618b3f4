//! A store of any kind with a broken line of all processes.

use std::sync::Arc;

use lockhouse_core::store::{Batch, Error, FullStore, Layer};
use lockhouse_core::{Command, Outcome, Saved, Stand};

use super::order::{forget, level};

/// A way to break the line of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfair {
    /// No process is entered in the line.
    NeverRegisters,
    /// Every grant passes over all processes.
    PassesAllOver,
    /// Priority does not count between processes.
    IgnoresPriority,
}

/// The prefixes of a store's URL.
const ALL: [(&str, Unfair); 3] = [
    ("unregistered+", Unfair::NeverRegisters),
    ("passed-over+", Unfair::PassesAllOver),
    ("without-priority+", Unfair::IgnoresPriority),
];

impl Unfair {
    /// The way that the prefix of `url` names, and the rest of `url`.
    pub(super) fn of(url: &str) -> Option<(Self, &str)> {
        let mut all = ALL.into_iter();
        all.find_map(|(prefix, unfair)| Some((unfair, url.strip_prefix(prefix)?)))
    }

    /// The prefix of a store's URL that breaks the line in this way.
    pub fn prefix(self) -> &'static str {
        let mut all = ALL.into_iter();
        all.find_map(|(prefix, unfair)| (unfair == self).then_some(prefix))
            .expect("ALL has each of them")
    }

    /// Breaks the line of `store`.
    pub(super) fn over(self, store: Arc<dyn FullStore>) -> Arc<dyn FullStore> {
        Arc::new(UnfairStore { store, is: self })
    }
}

#[derive(Debug)]
struct UnfairStore {
    store: Arc<dyn FullStore>,
    is: Unfair,
}

impl UnfairStore {
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

impl Layer for UnfairStore {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let change: fn(&mut Command) = match self.is {
            Unfair::NeverRegisters => forget,
            Unfair::IgnoresPriority => level,
            Unfair::PassesAllOver => {
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
}
