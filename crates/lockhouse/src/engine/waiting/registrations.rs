//! What this process saves of its waiters in the line of all processes, for all its semaphores, and when.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lockhouse_core::{Count, Place, Saved, SemaphoreName, Stand, Standing};
use tokio::time::Instant;

use super::super::grant_cache::GrantCache;
use super::WaitingLine;
use super::registration::{Head, REFRESHED_EVERY};
use super::schedule::PollPlan;
use super::semaphore_line::SemaphoreLine;
use super::waiter::{Waiter, WaiterState};

impl WaitingLine {
    /// What is saved of this process's waiters for `name` with a batch that comes now.
    pub(in crate::engine) fn stand(&mut self, name: &SemaphoreName, saved: Saved) -> Stand {
        if let Some(line) = self.lines.get_mut(name) {
            line.registration.go_along();
        }
        Stand {
            process: self.process,
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
            seniority: first.seniority(),
            count: count.map_or(Count::ONE, |(_, count)| count),
            waiting: line.standing().try_into().unwrap_or(u32::MAX),
        })
    }

    /// What to look at now, and when next, by one who `rests`; for what has lapsed by what is `known`
    /// to expire.
    pub(in crate::engine) fn plan(
        &mut self,
        grants: &GrantCache,
        rests: Instant,
        now: Instant,
    ) -> PollPlan {
        let schedule = self.lines.iter_mut();
        let schedule = schedule.map(|(name, line)| {
            let rank = line.registration.rank();
            (name, &mut line.schedule, rank)
        });
        PollPlan::of(schedule, grants, rests, now)
    }

    /// Whether others may believe that somebody waits here where nobody does.
    pub(in crate::engine) fn has_deregistrations(&self) -> bool {
        !self.deregistrations.is_empty()
    }

    /// Where to save now that nobody waits any more.
    pub(in crate::engine) fn deregistrations(&mut self) -> Vec<SemaphoreName> {
        match self.deregistrations.is_empty() {
            true => Vec::new(),
            false => self.deregistrations.send(Instant::now()),
        }
    }

    /// What is to be saved of this process's waiters for its own sake, now.
    pub(in crate::engine) fn due_to_save(&mut self, now: Instant) -> Vec<(SemaphoreName, Saved)> {
        let mut due = Vec::new();
        self.send_due(REFRESHED_EVERY, now, &mut due);
        if !due.is_empty() {
            // What will be due before half of that time is over goes along, so that they share commits.
            self.send_due(REFRESHED_EVERY / 2, now, &mut due);
        }
        due
    }

    fn send_due(&mut self, every: Duration, now: Instant, due: &mut Vec<(SemaphoreName, Saved)>) {
        for (name, line) in &mut self.lines {
            let Some(head) = head(&self.waiters, line) else {
                // All who wait here lack a key, and hold up nobody at other processes either.
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

    /// When something is to be saved next, or others do not come first any more.
    pub(in crate::engine) fn next_to_save(&self, now: Instant) -> Option<Instant> {
        let lines = self.lines.values().filter_map(|line| {
            let Some(head) = head(&self.waiters, line) else {
                return line.registration.withdraws(now);
            };
            let next = line.registration.next(&head, now);
            next.into_iter()
                .chain(line.registration.others_first())
                .min()
        });
        lines.chain(self.deregistrations.next()).min()
    }

    /// Others do not come first any more in some rooms: those who wait there are looked at again.
    pub(in crate::engine) fn look_where_others_were_first(&mut self, now: Instant) {
        let over = self.lines.iter_mut().filter(|(_, line)| {
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

/// The first waiter in a room.
pub(super) fn head(waiters: &HashMap<Place, Waiter>, line: &SemaphoreLine) -> Option<Head> {
    let first = waiters.get(&line.head()?)?;
    Some(Head {
        seniority: first.seniority(),
        waited: first.ticket.waited(),
        is_parked: first.state == WaiterState::Parked,
        waiting: line.standing().try_into().unwrap_or(u32::MAX),
    })
}
