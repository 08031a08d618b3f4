//! What is known of each request.

use std::collections::{BTreeMap, HashMap};

use crate::history::rows::{PermitRow, Rows};
use crate::history::{Answer, Asked, Call, Held, Moved, NEVER, Operation, Refused};

/// All calls and rows of one request, each in the order in which they were begun.
#[derive(Default)]
pub(super) struct Facts<'a> {
    pub(super) id: &'a str,
    pub(super) asks: Vec<&'a Operation>,
    pub(super) renewals: Vec<&'a Operation>,
    /// Releases, and ends by force.
    pub(super) endings: Vec<&'a Operation>,
    /// Of its owner.
    pub(super) goodbyes: Vec<&'a Operation>,
    /// Whether its owner ever had a session.
    pub(super) has_session: bool,
    /// Whether the store's clock was moved while it may have lived.
    pub(super) clock_moved: bool,
    pub(super) rows: Vec<&'a PermitRow>,
}

pub(super) fn by_request<'a>(
    operations: &[&'a Operation],
    rows: Option<&'a Rows>,
    moved: &Moved,
) -> BTreeMap<&'a str, Facts<'a>> {
    let mut requests: BTreeMap<&str, Facts<'_>> = BTreeMap::new();
    let mut goodbyes: HashMap<&str, Vec<&Operation>> = HashMap::new();
    let mut sessions: HashMap<&str, ()> = HashMap::new();
    for operation in operations {
        match &operation.call {
            Call::Goodbye { owner } => goodbyes.entry(owner).or_default().push(operation),
            Call::Heartbeat { owner } => drop(sessions.insert(owner, ())),
            _ => {}
        }
        let Some(id) = operation.id() else { continue };
        let facts = requests.entry(id).or_default();
        match &operation.call {
            Call::Acquire(_) => facts.asks.push(operation),
            Call::Renew { .. } => facts.renewals.push(operation),
            _ => facts.endings.push(operation),
        }
    }
    for row in rows.map_or(&[][..], |rows| &rows.permits) {
        let facts = requests.entry(&row.external_id).or_default();
        facts.rows.push(row);
    }
    for (id, facts) in &mut requests {
        facts.id = id;
        let owner = facts.asked().and_then(|asked| asked.owner.as_deref());
        if let Some(owner) = owner {
            facts.goodbyes = goodbyes.get(owner).cloned().unwrap_or_default();
            facts.has_session = sessions.contains_key(owner);
        }
        let from = facts.asks.first().map_or(0, |ask| ask.begun);
        let to = facts.told_over().map_or(NEVER, |told| told.ended);
        facts.clock_moved = moved.between(from, to);
    }
    requests
}

impl<'a> Facts<'a> {
    /// The ask that was granted, or else the first.
    pub(super) fn asked(&self) -> Option<&'a Asked> {
        let granted = self.grants().next().map(|(operation, ..)| operation);
        granted.or(self.asks.first().copied())?.asked()
    }

    /// The answers that say that it is held.
    pub(super) fn grants(&self) -> impl Iterator<Item = (&'a Operation, &'a [Held], bool)> {
        self.asks
            .iter()
            .filter_map(|operation| match &operation.answer {
                Answer::Granted { permits, now } => Some((*operation, &permits[..], *now)),
                _ => None,
            })
    }

    /// All operations on it.
    pub(super) fn operations(&self) -> impl Iterator<Item = &'a Operation> {
        let calls = self.asks.iter().chain(&self.renewals).chain(&self.endings);
        calls.copied()
    }

    /// The first call that may have got it, be it that it was over before an answer came through.
    pub(super) fn first_ask(&self) -> Option<&'a Operation> {
        let may = |ask: &&Operation| {
            let answer = &ask.answer;
            matches!(answer, Answer::Granted { .. } | Answer::Unknown) || ask.says_ended().is_some()
        };
        self.asks.iter().copied().find(may)
    }

    /// The first answer that says that it is held.
    pub(super) fn first_grant(&self) -> Option<&'a Operation> {
        let grants = self.grants().map(|(operation, ..)| operation);
        grants.min_by_key(|operation| operation.ended)
    }

    /// The first answer that says that it is over.
    pub(super) fn told_over(&self) -> Option<&'a Operation> {
        let over = self.operations().filter(|o| o.says_ended().is_some());
        over.min_by_key(|operation| operation.ended)
    }

    /// Whether an answer about it was lost before that time.
    pub(super) fn was_lost(&self, before: u64) -> bool {
        self.operations()
            .any(|operation| operation.answer == Answer::Unknown && operation.begun < before)
    }

    /// When the first call that may end it was begun.
    pub(super) fn may_end_from(&self) -> u64 {
        let endings = self.endings.iter().chain(&self.goodbyes);
        endings
            .filter(|operation| !matches!(operation.answer, Answer::Refused(_)))
            .map(|operation| operation.begun)
            .min()
            .unwrap_or(NEVER)
    }

    /// The least and the greatest time to live that it was ever given; none if it has none.
    pub(super) fn ttls(&self) -> Option<(u64, u64)> {
        let asked = self.asks.iter().filter_map(|ask| ask.asked()?.ttl_us);
        let renewed = self.renewals.iter().filter_map(|renewal| {
            let Call::Renew { ttl_us, .. } = renewal.call else {
                return None;
            };
            ttl_us
        });
        let all = || asked.clone().chain(renewed.clone());
        Some((all().min()?, all().max()?))
    }

    /// Before this it can't have expired, as far as calls that ended by `until` tell.
    pub(super) fn lives_at_least_to(&self, until: u64) -> Option<u64> {
        if self.clock_moved {
            return None;
        }
        let (least, _) = self.ttls()?;
        let renewed = self
            .renewals
            .iter()
            .filter(|renewal| renewal.answer == Answer::Renewed && renewal.ended <= until);
        let renewed = renewed.map(|renewal| renewal.begun).max();
        let begun = renewed.or_else(|| self.first_ask().map(|ask| ask.begun))?;
        Some(begun + least)
    }

    /// After this it has expired, whatever became of the calls that were begun before `until`; none
    /// if it may live on.
    pub(super) fn lives_at_most_to(&self, until: u64) -> Option<u64> {
        if self.clock_moved {
            return None;
        }
        let (_, most) = self.ttls()?;
        let mut last = self.first_grant()?.ended;
        let mut asked = 0;
        for ask in self.asks.iter().filter_map(|ask| ask.asked()) {
            asked = asked.max(ask.ttl_us?);
        }
        last += asked;
        for renewal in self.renewals.iter().filter(|r| r.begun < until) {
            let Call::Renew { ttl_us, .. } = renewal.call else {
                continue;
            };
            match renewal.answer {
                Answer::Renewed => last = last.max(renewal.ended + ttl_us.unwrap_or(most)),
                Answer::Unknown => return None,
                _ => {}
            }
        }
        Some(last)
    }

    /// Whether all who asked for it were told that they don't get it, and that it was never had.
    pub(super) fn was_always_refused(&self) -> bool {
        let refused = |ask: &&Operation| matches!(&ask.answer, Answer::Refused(why) if !matches!(why, Refused::Ended(_)));
        !self.asks.is_empty() && self.asks.iter().all(refused)
    }
}
