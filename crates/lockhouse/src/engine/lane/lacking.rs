//! Asks with a wait that meet a locked semaphore stand in line if a plain read finds no room for
//! them.
//!
//! A transaction that ends in a refusal locks the semaphore's row too. Where many processes want
//! one semaphore, the asks of those far behind would keep the row locked for the process whose turn
//! it is. So only asks that may be granted wait for the lock.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::{Ask, ExternalId, Footprint, Refusal, Semaphore, SemaphoreName};

use super::super::apply::{Decided, apply_outcomes};
use super::super::queue::Queued;
use super::super::waiting::Observed;
use super::Lane;

/// How many requests are read at most, to find out whether they were granted before. The others wait for the lock.
const MOST_READ: usize = 16;

impl Lane {
    /// Handles a batch that did not get its locks in time though no transaction keeps its rows
    /// locked: many processes want one of them. Has the asks without room stand in line.
    pub(super) async fn step_aside(&mut self) {
        let lacking = self.lacking(|_| true).await;
        let all = self.empty().collect();
        let rest = self.park(all, lacking);
        self.fill_with_rest(rest);
    }

    /// The semaphores that each ask lacks, by a plain read: of the asks that wait and need a `locked`
    /// semaphore. Leaves out asks that need another locked row.
    pub(super) async fn lacking_of(&self, locked: &Footprint) -> Lacking {
        let needs_semaphores_of = |needs: &Footprint| {
            !needs.semaphores.is_disjoint(&locked.semaphores)
                && needs.requests.is_disjoint(&locked.requests)
                && needs.owners.is_disjoint(&locked.owners)
        };
        self.lacking(needs_semaphores_of).await
    }

    /// The same of those asks whose rows are `among` those in question. One that may have been granted before, by a call
    /// with the same id, is not among them.
    async fn lacking(&self, among: impl Fn(&Footprint) -> bool) -> Lacking {
        let store = &*self.driver.store;
        let commands = self.batch.commands.iter().zip(&self.asked);
        let asks = commands.filter_map(|(command, asked)| {
            let ask = command.ask().filter(|_| asked.reply_to.waits())?;
            let needs = Footprint::of(std::slice::from_ref(command), &[]);
            among(&needs).then_some(ask)
        });
        let asks: Vec<_> = asks.collect();
        let permits = asks.iter().flat_map(|ask| ask.permits());
        let names: BTreeSet<_> = permits.map(|(name, _)| name.clone()).collect();
        let names: Vec<_> = names.into_iter().collect();
        let mut lacking = Lacking::default();
        if names.is_empty() {
            return lacking;
        }
        match store.named(&names).await {
            Ok(semaphores) => lacking.semaphores = semaphores,
            Err(error) => {
                tracing::debug!(%error, "semaphores that are locked could not be read");
                return lacking;
            }
        }
        let lack = asks.into_iter().filter_map(|ask| {
            let lacks = lacks(ask, &lacking.semaphores);
            (!lacks.is_empty()).then_some((ask, lacks))
        });
        for (ask, lacks) in lack.take(MOST_READ) {
            if let Ok(None) = store.request(&ask.external_id).await {
                lacking.by_id.insert(ask.external_id.clone(), lacks);
            }
        }
        lacking
    }

    /// Has the `commands` that are `lacking` something stand in line, as if the store had refused
    /// them. Returns the others in their order.
    pub(super) fn park(&self, commands: Vec<Queued>, lacking: Lacking) -> Vec<Queued> {
        let Lacking { semaphores, by_id } = lacking;
        let (mut parked, mut rest) = (Vec::new(), Vec::new());
        for queued in commands {
            let ask = queued.command.ask().filter(|_| queued.reply_to.waits());
            let Some(lacks) = ask.and_then(|ask| by_id.get(&ask.external_id)) else {
                rest.push(queued);
                continue;
            };
            parked.push(Decided {
                answer: Ok(Err(Refusal::Exhausted(lacks.clone()))),
                command: queued.command,
                reply_to: queued.reply_to,
                frees: queued.frees,
            });
        }
        let driver = &self.driver;
        let told = apply_outcomes(driver, &driver.shared.grants, parked.into_iter());
        told.into_iter().for_each(|response| response.send());
        let mut state = driver.state();
        for semaphore in &semaphores {
            state.waiting.see(semaphore, None, Observed::Unordered);
        }
        rest
    }
}

/// The semaphores that some asks lack, and the rows by which they do.
#[derive(Default)]
pub(super) struct Lacking {
    semaphores: Vec<Semaphore>,
    by_id: BTreeMap<ExternalId, Vec<SemaphoreName>>,
}

/// The semaphores that have too few free permits for `ask`, if all of its semaphores exist and are
/// large enough.
fn lacks(ask: &Ask, semaphores: &[Semaphore]) -> Vec<SemaphoreName> {
    let mut lacks = Vec::new();
    for (name, count) in ask.permits() {
        let found = semaphores.iter().find(|semaphore| semaphore.name == *name);
        match found {
            Some(found) if found.available() >= count.value() => {}
            Some(found) if found.capacity.value() >= count.value() => lacks.push(name.clone()),
            _ => return Vec::new(),
        }
    }
    lacks
}
