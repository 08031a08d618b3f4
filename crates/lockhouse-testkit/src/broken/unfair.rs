//! A store of any kind, whose line of all processes is broken.

use std::sync::Arc;

use lockhouse_core::store::{Batch, Error, FullStore, Layer};
use lockhouse_core::{Command, Outcome, Saved, Stand};

use super::order::{forget, level};

/// The ways in which the line of all processes is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfair {
    /// No process is entered.
    NeverRegisters,
    /// Every grant passes over all processes.
    PassesAllOver,
    /// Between processes only the time counts at which one came.
    IgnoresPriority,
}

/// The prefix of a store's URL that breaks it so.
const ALL: [(&str, Unfair); 3] = [
    ("unregistered+", Unfair::NeverRegisters),
    ("passed-over+", Unfair::PassesAllOver),
    ("without-priority+", Unfair::IgnoresPriority),
];

impl Unfair {
    /// How the URL says it, and the rest.
    pub(super) fn of(url: &str) -> Option<(Self, &str)> {
        let mut all = ALL.into_iter();
        all.find_map(|(prefix, unfair)| Some((unfair, url.strip_prefix(prefix)?)))
    }

    /// The prefix of a store's URL that breaks it so.
    pub fn prefix(self) -> &'static str {
        let mut all = ALL.into_iter();
        all.find_map(|(prefix, unfair)| (unfair == self).then_some(prefix))
            .expect("each is listed")
    }

    /// The same store, broken.
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
    /// Says for all processes in the lines that nobody waits at them.
    async fn pass_over_all(&self, batch: &Batch) -> Result<(), Error> {
        let names: Vec<_> = batch.footprint.semaphores.iter().cloned().collect();
        let mut said = Vec::new();
        for row in self.store.named(&names).await? {
            for entry in row.line.entries() {
                let stand = Stand {
                    process: entry.process,
                    standing: None,
                    saved: Saved::Always,
                };
                let name = row.name.clone();
                said.push(Command::Stand { name, stand });
            }
        }
        if !said.is_empty() {
            self.store.transact(&Batch::new(said)).await?;
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
