//! Verification: checks the promises by counting a store's rows again.

use std::fmt;

use crate::{ExternalId, Grant, SemaphoreName, SemaphoreRow, Slots};

/// The totals of a store's rows, from one consistent read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recount {
    /// Every semaphore, including deleted ones.
    pub semaphores: Vec<Recounted>,
    /// Requests whose state, end and permits contradict each other, in byte order; at most
    /// [`MOST_TORN`](Self::MOST_TORN).
    pub torn: Vec<ExternalId>,
}

/// The totals of the permits of one semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recounted {
    /// Its row.
    pub semaphore: SemaphoreRow,
    /// The sum of its live permits.
    pub live: u64,
    /// The greatest fence of its permits; 0 if there are none.
    pub last_fence: u64,
    /// How many of its fences were handed out more than once.
    pub repeated_fences: u64,
    /// How many live requests that hold its permits are indexed under another semaphore. A refusal
    /// would not find them once they have lapsed.
    pub misfiled: u64,
    /// The slots of its live permits.
    pub slots: HeldSlots,
}

/// The slots of the live permits of one semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldSlots {
    /// All slots.
    pub held: Slots,
    /// The slots that more than one permit holds.
    pub shared: Slots,
    /// How many slots there are. A shared slot counts once for each permit.
    pub count: u64,
}

impl HeldSlots {
    /// Adds the slots of a live permit.
    pub fn add(&mut self, slots: &Slots) {
        self.shared.extend(&self.held.shared_with(slots));
        self.held.extend(slots);
        self.count += u64::from(slots.len());
    }
}

/// An inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The promise that is broken: `P1`, `P2`, `P3`, `P7` or `P10`.
    pub promise: &'static str,
    /// The semaphore, if the finding is about one.
    pub semaphore: Option<SemaphoreName>,
    /// A description.
    pub text: String,
    /// Whether [`Maintenance::repair`](crate::store::Maintenance::repair) repairs it.
    pub can_be_repaired: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.text)
    }
}

impl Recount {
    /// The most requests that are named as torn.
    pub const MOST_TORN: usize = 1_000;

    /// The inconsistencies. Empty if the rows are consistent.
    pub fn findings(&self) -> Vec<Finding> {
        let torn = self.torn.iter().map(|external_id| Finding {
            promise: "P3",
            semaphore: None,
            text: format!(
                "request \"{external_id}\" is torn: its state, its end and its permits do not agree"
            ),
            can_be_repaired: false,
        });
        self.semaphores
            .iter()
            .flat_map(Recounted::findings)
            .chain(torn)
            .collect()
    }
}

impl Recounted {
    /// The totals of `semaphore` without any permits.
    pub fn without_permits(semaphore: SemaphoreRow) -> Self {
        Self {
            semaphore,
            live: 0,
            last_fence: 0,
            repeated_fences: 0,
            misfiled: 0,
            slots: HeldSlots::default(),
        }
    }

    /// Adds a live permit.
    pub fn add_live(&mut self, permit: &Grant) {
        self.live += u64::from(permit.count.value());
        if let Some(slots) = &permit.slots {
            self.slots.add(slots);
        }
    }

    /// The semaphore as it should be by its permits.
    pub fn repaired(&self) -> SemaphoreRow {
        let was = &self.semaphore;
        SemaphoreRow {
            in_use: u32::try_from(self.live).unwrap_or(u32::MAX),
            fence: was.fence.max(self.last_fence),
            slots: was.slots.as_ref().map(|_| self.slots.held.clone()),
            ..was.clone()
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let SemaphoreRow {
            name,
            capacity,
            in_use,
            fence,
            ..
        } = &self.semaphore;
        let mut findings = Vec::new();
        let mut find = |promise, can_be_repaired, text| {
            findings.push(Finding {
                promise,
                semaphore: Some(name.clone()),
                text,
                can_be_repaired,
            });
        };
        // After a resize below the permits in use, more may be live than the capacity. Then nothing
        // was granted since, and the resize has the last fence. This does not compare clocks, which
        // may be set back.
        let granted_since = self.last_fence == *fence;
        let live = self.live;
        if live > u64::from(capacity.value()) && granted_since {
            find(
                "P1",
                false,
                format!("{live} of {capacity} permits of \"{name}\" are live"),
            );
        }
        if live != u64::from(*in_use) {
            find(
                "P2",
                true,
                format!("\"{name}\" counts {in_use} in use, but {live} are live"),
            );
        }
        let last = self.last_fence;
        if last > *fence {
            find(
                "P7",
                true,
                format!("fence {last} of \"{name}\" is beyond its own, {fence}"),
            );
        }
        if self.repeated_fences > 0 {
            let repeated = self.repeated_fences;
            find(
                "P7",
                false,
                format!("{repeated} fences of \"{name}\" were handed out twice"),
            );
        }
        if self.misfiled > 0 {
            let misfiled = self.misfiled;
            find(
                "P10",
                true,
                format!(
                    "{misfiled} requests that hold \"{name}\" are filed under another semaphore"
                ),
            );
        }
        let Some(taken) = &self.semaphore.slots else {
            return findings;
        };
        let HeldSlots {
            held,
            shared,
            count,
        } = &self.slots;
        if !shared.is_empty() {
            find(
                "P1",
                false,
                format!("slots {shared:?} of \"{name}\" are each held by more than one permit"),
            );
        }
        if *count != live {
            find(
                "P1",
                false,
                format!("{live} permits of \"{name}\" are live, and they hold {count} slots"),
            );
        }
        if taken != held {
            find(
                "P2",
                true,
                format!("\"{name}\" counts slots {taken:?} as taken, but {held:?} are held"),
            );
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, Timestamp};

    fn recounted(in_use: u32, live: u64) -> Recounted {
        let name = SemaphoreName::parse("s").unwrap();
        let created = Timestamp::from_second(1_000).unwrap();
        let semaphore = SemaphoreRow {
            capacity: Capacity::new(5).unwrap(),
            in_use,
            fence: 9,
            deleted_at: None,
            ..SemaphoreRow::undefined(name, created)
        };
        Recounted {
            semaphore,
            live,
            last_fence: 9,
            repeated_fences: 0,
            misfiled: 0,
            slots: HeldSlots::default(),
        }
    }

    fn promises(recounted: Recounted) -> Vec<&'static str> {
        recounted
            .findings()
            .iter()
            .map(|finding| finding.promise)
            .collect()
    }

    #[test]
    fn consistent_rows_have_no_findings() {
        assert!(promises(recounted(5, 5)).is_empty());
        let mut shrunk = recounted(6, 6);
        shrunk.semaphore.fence = 10;
        assert!(promises(shrunk).is_empty());
    }

    #[test]
    fn each_broken_promise_is_found() {
        assert_eq!(promises(recounted(6, 6)), ["P1"]);
        assert_eq!(promises(recounted(4, 5)), ["P2"]);
        assert_eq!(
            promises(Recounted {
                last_fence: 10,
                ..recounted(5, 5)
            }),
            ["P7"]
        );
        assert_eq!(
            promises(Recounted {
                repeated_fences: 1,
                ..recounted(5, 5)
            }),
            ["P7"]
        );
        assert_eq!(
            promises(Recounted {
                misfiled: 1,
                ..recounted(5, 5)
            }),
            ["P10"]
        );
        let slots = |taken: &[u32], permits: &[&[u32]]| {
            let set = |slots: &[u32]| Slots::of(slots.iter().copied()).unwrap();
            let mut slotted = recounted(2, 2);
            slotted.semaphore.slots = Some(set(taken));
            permits
                .iter()
                .for_each(|permit| slotted.slots.add(&set(permit)));
            promises(slotted)
        };
        assert!(slots(&[0, 3], &[&[3], &[0]]).is_empty());
        assert_eq!(slots(&[3], &[&[3], &[3]]), ["P1"]);
        assert_eq!(slots(&[0], &[&[0]]), ["P1"]);
        assert_eq!(slots(&[0, 1], &[&[0, 3]]), ["P2"]);
        let torn = Recount {
            torn: vec!["a".parse().unwrap()],
            ..Recount::default()
        };
        assert_eq!(torn.findings()[0].promise, "P3");
    }
}
