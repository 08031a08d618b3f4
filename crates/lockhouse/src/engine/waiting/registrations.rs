//! This process's entries in the lines of the store, for all its semaphores, and when to save them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lockhouse_core::{Count, PlaceInLine, ProcessId, Saved, SemaphoreName, Stand, Standing};
use tokio::time::Instant;

use super::super::grant_cache::GrantCache;
use super::WaitingLine;
use super::registration::{Head, REFRESHED_EVERY};
use super::schedule::PollPlan;
use super::semaphore_line::SemaphoreLine;
use super::waiter::{WaiterState, WaitingCall};

impl WaitingLine {
    /// The `Stand` for `name` in a batch that is made now.
    pub(in crate::engine) fn stand(&mut self, name: &SemaphoreName, saved: Saved) -> Stand {
        let process = match self.lines.get_mut(name) {
            Some(line) => {
                line.registration.go_along();
                self.process
            }
            // It only reads. If the answer is lost, no entry remains that nothing here would remove.
            None if saved == Saved::Along => ProcessId::NOBODY,
            None => self.process,
        };
        Stand {
            process,
            standing: self.standing(name),
            saved,
        }
    }

    fn standing(&self, name: &SemaphoreName) -> Option<Standing> {
        let line = self.lines.get(name)?;
        let first = self.waiters.get(&line.head()?)?;
        let mut permits = first.ask.permits();
        let count = permits.find(|(wanted, _)| *wanted == name);
        Some(Standing {
            seniority: first.seniority(self.now),
            count: count.map_or(Count::ONE, |(_, count)| count),
            waiting: line.standing().try_into().unwrap_or(u32::MAX),
        })
    }

    /// The semaphores to poll now, and when to poll next. The poller pauses until `rests`; `grants`
    /// says when holds expire.
    pub(in crate::engine) fn plan(&mut self, grants: &GrantCache, rests: Instant) -> PollPlan {
        let now = self.now;
        self.is_news = false;
        let schedule = self.lines.there_mut();
        let schedule = schedule.map(|(name, line)| {
            let rank = line.registration.rank();
            (name, &mut line.schedule, rank)
        });
        let mut plan = PollPlan::of(schedule, grants, rests, now);
        if rests <= now {
            plan.look.extend(self.lines.missing(now));
        }
        let next_missing = self.lines.next_missing().map(|at| at.max(rests));
        plan.next = plan.next.into_iter().chain(next_missing).min();
        plan
    }

    /// Whether there are entries to remove.
    pub(in crate::engine) fn has_deregistrations(&self) -> bool {
        !self.deregistrations.is_empty()
    }

    /// The semaphores from whose lines to remove the entry now.
    pub(in crate::engine) fn deregistrations(&mut self) -> Vec<SemaphoreName> {
        match self.deregistrations.is_empty() {
            true => Vec::new(),
            false => self.deregistrations.send(self.now),
        }
    }

    /// The entries for which to send a batch now.
    pub(in crate::engine) fn due_to_save(&mut self) -> Vec<(SemaphoreName, Saved)> {
        let mut due = Vec::new();
        self.send_due(REFRESHED_EVERY, &mut due);
        if !due.is_empty() {
            // Entries that are due within half of that time are sent along, so that they share
            // commits.
            self.send_due(REFRESHED_EVERY / 2, &mut due);
        }
        due
    }

    fn send_due(&mut self, every: Duration, due: &mut Vec<(SemaphoreName, Saved)>) {
        let now = self.now;
        for (name, line) in self.lines.there_mut() {
            let Some(head) = head(&self.waiters, line, now) else {
                // All waiters here lack a key, and must block no waiter at another process either.
                if line.registration.is_to_withdraw(now) {
                    line.registration.send(now);
                    due.push((name.clone(), Saved::Always));
                }
                continue;
            };
            if let Some(saved) = line.registration.is_due(&head, every, now) {
                line.registration.send(now);
                due.push((name.clone(), saved));
            }
        }
    }

    /// When an entry is due next, or waiters of other processes no longer come first.
    pub(in crate::engine) fn next_to_save(&self) -> Option<Instant> {
        let now = self.now;
        let lines = self.lines.there().filter_map(|(_, line)| {
            let Some(head) = head(&self.waiters, line, now) else {
                return line.registration.withdraws(now);
            };
            let next = line.registration.next(&head, now);
            next.into_iter()
                .chain(line.registration.others_first())
                .min()
        });
        lines.chain(self.deregistrations.next()).min()
    }

    /// Checks the waiters of the semaphores on which other processes no longer come first.
    pub(in crate::engine) fn look_where_others_were_first(&mut self) {
        let now = self.now;
        let over = self.lines.there_mut().filter(|(_, line)| {
            let until = line.registration.others_first();
            until.is_some_and(|until| until <= now)
        });
        let names: BTreeSet<_> = over
            .map(|(name, line)| {
                line.registration.has_new_head();
                name.clone()
            })
            .collect();
        self.look_at.extend(names);
    }
}

/// The first waiter in a line.
pub(super) fn head(
    waiters: &HashMap<PlaceInLine, WaitingCall>,
    line: &SemaphoreLine,
    now: Instant,
) -> Option<Head> {
    let first = waiters.get(&line.head()?)?;
    Some(Head {
        seniority: first.seniority(now),
        waited: first.ticket.waited(now),
        is_parked: first.state == WaiterState::Parked,
        waiting: line.standing().try_into().unwrap_or(u32::MAX),
    })
}
