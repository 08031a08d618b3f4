//! Live requests in the order of their grants, for pages of listings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use lockhouse_core::store::{Cursor, Holders, Page};
use lockhouse_core::{ExternalId, Owner, Request, SemaphoreName};

/// How many requests a page reads at most.
const LOOKED_AT: usize = 1_000;

/// The live requests by number, in the order of their grants.
#[derive(Debug, Default)]
pub(super) struct GrantOrder {
    last: u64,
    numbers: HashMap<ExternalId, u64>,
    live: BTreeMap<u64, ExternalId>,
    on: BTreeMap<SemaphoreName, BTreeSet<u64>>,
    of: BTreeMap<Owner, BTreeSet<u64>>,
}

impl GrantOrder {
    pub(super) fn add(&mut self, request: &Request) {
        self.last += 1;
        let (number, id) = (self.last, request.external_id.clone());
        self.numbers.insert(id.clone(), number);
        self.live.insert(number, id);
        for permit in &request.permits {
            let on = self.on.entry(permit.semaphore.clone()).or_default();
            on.insert(number);
        }
        if let Some(owner) = &request.owner {
            self.of.entry(owner.clone()).or_default().insert(number);
        }
    }

    pub(super) fn remove(&mut self, request: &Request) {
        let Some(number) = self.numbers.remove(&request.external_id) else {
            return;
        };
        self.live.remove(&number);
        for permit in &request.permits {
            take(&mut self.on, &permit.semaphore, number);
        }
        if let Some(owner) = &request.owner {
            take(&mut self.of, owner, number);
        }
    }

    /// The requests of the page that are `listed`, and where the next page begins.
    pub(super) fn page(
        &self,
        of: &Holders,
        page: &Page<Cursor>,
        listed: impl Fn(&ExternalId) -> bool,
    ) -> (Vec<&ExternalId>, Option<Cursor>) {
        let mut ids = Vec::new();
        let mut looked_to = page.after.map_or(0, |after| after.row);
        let next = |row| Some(Cursor { group: 0, row });
        for (looked_at, number) in self.numbers_after(of, looked_to).enumerate() {
            if looked_at == LOOKED_AT {
                return (ids, next(looked_to));
            }
            if let Some(id) = self.live.get(&number).filter(|id| listed(id)) {
                if ids.len() == page.limit as usize {
                    return (ids, next(looked_to));
                }
                ids.push(id);
            }
            looked_to = number;
        }
        (ids, None)
    }

    /// The numbers after `after`, from the smallest of these sets: the owner's, the semaphore's, or
    /// all.
    fn numbers_after(&self, of: &Holders, after: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        static NONE: BTreeSet<u64> = BTreeSet::new();
        let on = of.on.as_ref().map(|on| self.on.get(on).unwrap_or(&NONE));
        let of = of.owner.as_ref();
        let of = of.map(|owner| self.of.get(owner).unwrap_or(&NONE));
        let range = (Excluded(after), Unbounded);
        match [on, of].into_iter().flatten().min_by_key(|set| set.len()) {
            Some(numbers) => Box::new(numbers.range(range).copied()),
            None => Box::new(self.live.range(range).map(|(number, _)| *number)),
        }
    }
}

fn take<K: Ord>(all: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = all.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            all.remove(key);
        }
    }
}
