//! A commit seen from outside: the rows before and after it, and its answers.

use std::collections::BTreeSet;

use lockhouse_core::{
    Ask, Capacity, Cause, Command, ExternalId, Outcome, Reply, Request, SemaphoreName, State,
    Template, Timestamp,
};

use crate::rows::Rows;

/// One batch that was decided and saved.
pub(crate) struct Commit<'a> {
    pub(crate) now: Timestamp,
    pub(crate) before: &'a Rows,
    pub(crate) commands: &'a [Command],
    pub(crate) outcomes: &'a [Outcome],
    pub(crate) after: &'a Rows,
}

impl Commit<'_> {
    /// Every granted ask, its answer, and whether it was granted just then.
    pub(crate) fn granted_replies(&self) -> impl Iterator<Item = (&Ask, &Request, bool)> {
        let answers = self.commands.iter().zip(self.outcomes);
        answers.filter_map(|(command, outcome)| match (command.ask()?, outcome) {
            (ask, Ok(Reply::Granted { request, now, .. })) => Some((ask, request, *now)),
            _ => None,
        })
    }

    /// The grants of this commit by its answers, in order.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (&Ask, &Request)> {
        self.granted_replies()
            .filter(|(_, _, now)| *now)
            .map(|(ask, request, _)| (ask, request))
    }

    /// The commands whose answers say that they ended a request: the index in the batch, the cause, and the request.
    pub(crate) fn ends_now(&self) -> impl Iterator<Item = (usize, &Cause, &Request)> {
        let answers = self.commands.iter().zip(self.outcomes).enumerate();
        answers.filter_map(|(i, answer)| match answer {
            (
                Command::End { cause, .. },
                Ok(Reply::Ended {
                    now: true, request, ..
                }),
            ) => Some((i, cause, request)),
            _ => None,
        })
    }

    /// The requests that the commands name.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &ExternalId> {
        let ids: BTreeSet<_> = self
            .commands
            .iter()
            .filter_map(Command::external_id)
            .collect();
        ids.into_iter()
    }

    /// Whether the request was live before, and past its TTL.
    pub(crate) fn was_due(&self, id: &ExternalId) -> bool {
        let before = self.before.requests.get(id).filter(|row| is_live(row));
        let expires_at = before.filter(|row| row.finished_at.is_none());
        let expires_at = expires_at.and_then(|row| row.expires_at);
        expires_at.is_some_and(|expires_at| expires_at <= self.now)
    }

    /// Whether the request was live before, and its holder had finished it.
    pub(crate) fn was_finished(&self, id: &ExternalId) -> bool {
        let before = self.before.requests.get(id).filter(|row| is_live(row));
        before.is_some_and(|row| row.finished_at.is_some())
    }

    /// The largest capacity that was in force at some time from before to after.
    pub(crate) fn largest_capacity(&self, name: &SemaphoreName) -> Option<Capacity> {
        let before = self.before.semaphores.get(name);
        let before = before.filter(|row| row.deleted_at.is_none());
        let defined = self.outcomes.iter().filter_map(|outcome| match outcome {
            Ok(Reply::Defined { semaphore, .. } | Reply::Followed { semaphore, .. })
                if semaphore.name == *name =>
            {
                Some(semaphore)
            }
            _ => None,
        });
        let rows = before.into_iter().chain(defined).map(|row| row.capacity);
        // A template creates a semaphore that is missing, or that the commit deletes.
        let is_missing = before.is_none()
            || self.commands.iter().any(|command| {
                matches!(command, Command::Delete { name: its } | Command::Follow { name: its } if its == name)
            });
        let made = Template::of(name, &self.before.templates).filter(|_| is_missing);
        rows.chain(made.map(|template| template.capacity)).max()
    }
}

impl Rows {
    pub(crate) fn live_permits(&self, name: &SemaphoreName) -> u64 {
        let live = self.requests.values().filter(|row| is_live(row));
        live.flat_map(|row| &row.permits)
            .filter(|permit| permit.semaphore == *name)
            .map(|permit| u64::from(permit.count.value()))
            .sum()
    }

    pub(crate) fn state(&self, id: &ExternalId) -> Option<State> {
        self.requests.get(id).map(|row| row.state)
    }
}

pub(crate) fn is_live(row: &Request) -> bool {
    row.state == State::Acquired
}
