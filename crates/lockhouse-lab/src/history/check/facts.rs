//! The facts that are known about each request.

use std::collections::{BTreeMap, HashMap};

use super::sessions;
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
    /// The goodbyes of the request's owner.
    pub(super) goodbyes: Vec<&'a Operation>,
    /// The heartbeats of the request's owner that may have been heard.
    pub(super) beats: Vec<&'a Operation>,
    /// The first moment at which the silence of its owner may have ended the request.
    pub(super) kept_to: u64,
    /// When the silence of its owner has surely ended the request.
    pub(super) silent_from: u64,
    /// Whether the store's clock was moved while the request may have lived.
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
    let mut beats: HashMap<&str, Vec<&Operation>> = HashMap::new();
    for operation in operations {
        match &operation.call {
            Call::Goodbye { owner } => goodbyes.entry(owner).or_default().push(operation),
            Call::Heartbeat { owner, .. } if may_be_done(operation) => {
                beats.entry(owner).or_default().push(operation);
            }
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
            facts.beats = beats.get(owner).cloned().unwrap_or_default();
        }
        let from = facts.asks.first().map_or(0, |ask| ask.begun);
        let to = facts.is_over_by(moved);
        facts.clock_moved = moved.between(from, to);
        (facts.kept_to, facts.silent_from) = match facts.beats.first() {
            Some(first) if moved.between(first.begun, to) => (from, NEVER),
            _ => (
                sessions::may_lapse_from(&facts.beats, from),
                sessions::has_lapsed_by(&facts.beats, &facts.goodbyes),
            ),
        };
    }
    requests
}

impl<'a> Facts<'a> {
    /// The ask that was granted, or else the first.
    pub(super) fn asked(&self) -> Option<&'a Asked> {
        let granted = self.grants().next().map(|(operation, ..)| operation);
        granted.or(self.asks.first().copied())?.asked()
    }

    /// The answers that say that the request is held.
    pub(super) fn grants(&self) -> impl Iterator<Item = (&'a Operation, &'a [Held], bool)> {
        self.asks
            .iter()
            .filter_map(|operation| match &operation.answer {
                Answer::Granted { permits, now } => Some((*operation, &permits[..], *now)),
                _ => None,
            })
    }

    /// All operations on the request.
    pub(super) fn operations(&self) -> impl Iterator<Item = &'a Operation> {
        let calls = self.asks.iter().chain(&self.renewals).chain(&self.endings);
        calls.copied()
    }

    /// The first call that may have been granted the request, even if the request ended before an answer came through.
    pub(super) fn first_ask(&self) -> Option<&'a Operation> {
        let may = |ask: &&Operation| {
            let answer = &ask.answer;
            matches!(answer, Answer::Granted { .. } | Answer::Unknown) || ask.says_ended().is_some()
        };
        self.asks.iter().copied().find(may)
    }

    /// The first answer that says that the request is held.
    pub(super) fn first_grant(&self) -> Option<&'a Operation> {
        let grants = self.grants().map(|(operation, ..)| operation);
        grants.min_by_key(|operation| operation.ended)
    }

    /// The first answer that says that the request is over.
    pub(super) fn told_over(&self) -> Option<&'a Operation> {
        let over = self.operations().filter(|o| o.says_ended().is_some());
        over.min_by_key(|operation| operation.ended)
    }

    /// When the request surely was over, by an answer or by its row.
    fn is_over_by(&self, moved: &Moved) -> u64 {
        let told = self.told_over().map(|told| told.ended);
        let row = self.rows.first().and_then(|row| row.released_at);
        let by_row = row.map(|at| moved.latest(at));
        told.into_iter().chain(by_row).min().unwrap_or(NEVER)
    }

    /// Whether an answer about the request was lost before that time.
    pub(super) fn was_lost(&self, before: u64) -> bool {
        self.operations()
            .any(|operation| operation.answer == Answer::Unknown && operation.begun < before)
    }

    /// When the first call that may end the request was begun.
    pub(super) fn may_end_from(&self) -> u64 {
        let endings = self.endings.iter().chain(&self.goodbyes);
        endings
            .filter(|operation| may_be_done(operation))
            .map(|operation| operation.begun)
            .min()
            .unwrap_or(NEVER)
    }

    /// The least and the greatest time to live that the request was ever given. `None` if it has none.
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

    /// The time before which the request can't have expired, as far as calls that ended by `until` tell.
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

    /// The time after which the request has expired, whatever became of the calls that were begun before `until`. `None`
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
            match &renewal.answer {
                // A repeated renewal may have been done at its first try, before the end that answers it.
                Answer::Renewed | Answer::Refused(Refused::Ended(_)) => {
                    last = last.max(renewal.ended + ttl_us.unwrap_or(most));
                }
                Answer::Unknown | Answer::Refused(Refused::Other(_)) => return None,
                _ => {}
            }
        }
        Some(last)
    }

    /// Whether every ask for the request was refused, and no answer says that it ever existed.
    pub(super) fn was_always_refused(&self) -> bool {
        let refused = |ask: &&Operation| matches!(&ask.answer, Answer::Refused(why) if !matches!(why, Refused::Ended(_)));
        !self.asks.is_empty() && self.asks.iter().all(refused)
    }
}

/// Whether a call may have been done. A call that failed, and was not refused by a rule, may have been done in part:
/// a goodbye is several transactions.
pub(super) fn may_be_done(operation: &Operation) -> bool {
    match &operation.answer {
        Answer::Refused(why) => matches!(why, Refused::Other(_)),
        _ => true,
    }
}
