//! Asks that meet a locked semaphore wait in line where a plain read finds no room for them.
//!
//! A transaction that is refused locks the semaphore's row too. In a crowd of processes that want one semaphore, the asks of
//! those far behind would keep it locked for the one whose turn it is: so only those wait for the lock that may be granted
//! something.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::{Ask, ExternalId, Footprint, Refusal, Semaphore, SemaphoreName};

use super::super::apply::{Decided, apply_outcomes};
use super::super::queue::Queued;
use super::super::reply_to::ReplyTo;
use super::super::waiting::Observed;
use super::Lane;

/// At most so many calls are read of, to find out whether one was granted before.
const MOST_READ: usize = 16;

impl Lane {
    /// A batch did not get its locks in time, and none of its rows is kept locked: many want one of them. Those wait in line
    /// that would have to.
    pub(super) async fn step_aside(&mut self) {
        let lacking = self.lacking(&Footprint::default()).await;
        let all = self.empty().collect();
        let rest = self.park(all, lacking);
        self.fill_with_rest(rest);
    }

    /// What those asks lack that wait, as far as a plain read tells. One that may have been granted before is not among
    /// them, nor is one that needs another row that is `locked`.
    pub(super) async fn lacking(&self, locked: &Footprint) -> Lacking {
        let store = &*self.driver.store;
        let commands = self.batch.commands.iter().zip(&self.asked);
        let waits = commands.filter(|(command, asked)| {
            let needs = Footprint::of([(*command).clone()].as_slice(), &[]);
            asked.reply_to.waits()
                && needs.requests.is_disjoint(&locked.requests)
                && needs.owners.is_disjoint(&locked.owners)
        });
        let asks = waits.filter_map(|(command, asked)| Some((command.ask()?, asked)));
        let asks: Vec<_> = asks.collect();
        let permits = asks.iter().flat_map(|(ask, _)| ask.permits());
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
        let mut reads = 0;
        for (ask, asked) in asks {
            let lacks = lacks(ask, &lacking.semaphores);
            if lacks.is_empty() {
                continue;
            }
            let is_first = matches!(asked.reply_to, ReplyTo::Caller(_));
            reads += usize::from(is_first);
            let is_read = || store.request(&ask.external_id);
            if !is_first || reads <= MOST_READ && matches!(is_read().await, Ok(None)) {
                lacking.by_id.insert(ask.external_id.clone(), lacks);
            }
        }
        lacking
    }

    /// Has those of `commands` wait in line that are `lacking` something, as if the store had refused them; gives back the
    /// others, in their order.
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

/// What some asks lack, and the semaphores that say so.
#[derive(Default)]
pub(super) struct Lacking {
    semaphores: Vec<Semaphore>,
    by_id: BTreeMap<ExternalId, Vec<SemaphoreName>>,
}

/// The semaphores that have too few free permits for `ask`, if all that it wants exist and are large enough.
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
