//! Due requests and old rows.

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{Due, Error, Maintenance, Page, Purge, Stale};
use lockhouse_core::{
    Owner, OwnerSession, Recount, Request, SemaphoreName, SemaphoreRow, Timestamp,
};
use redis::Script;

use super::Redis;
use super::rows::{self, Row, SetRange};
use crate::time::before;

static DUE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/due.lua")));
static OWNERS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/owners.lua")));
static PURGE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/purge.lua")));

#[async_trait]
impl Maintenance for Redis {
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        match which {
            Due::OwnedBy(owner) => self.owned_by(owner, limit).await,
            Due::Lapsed { on: Some([]) } => Ok(Vec::new()),
            Due::Lapsed { on } => self.lapsed(on.unwrap_or_default(), limit).await,
        }
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        let limit = page.limit as usize;
        let cutoff = before(self.now().await?, age).as_microsecond();
        let after = page.after.map_or("-inf".to_owned(), |after| {
            format!("({}", after.as_microsecond())
        });
        let range = SetRange::of_scores(&after, cutoff);
        let (times, mut found) = self.find("r", "lasting", &range, limit).await?;
        let mut looked_to = None;
        if let Some(last) = times.get(limit.saturating_sub(1)) {
            let last = *last as i64;
            looked_to = Some(rows::time(last)?);
            // All requests of that moment, however many.
            let range = SetRange::of_scores(&after, last);
            (_, found) = self.find("r", "lasting", &range, usize::MAX >> 1).await?;
        }
        let mut requests: Vec<Request> = rows::all(found)?;
        let owners = requests.iter().filter_map(|request| request.owner.as_ref());
        let sessions = owners.map(|owner| self.keys.session(owner));
        let sessions = self.load(sessions).await?;
        let mut kept: Vec<OwnerSession> = rows::all(sessions.values)?;
        kept.retain(|session| session.expires_at > sessions.at);
        let is_kept = |owner: &Owner| kept.iter().any(|session| session.owner == *owner);
        requests.retain(|request| !request.owner.as_ref().is_some_and(is_kept));
        Ok(Stale {
            requests,
            looked_to,
        })
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        let mut script = OWNERS.key(self.keys.of("owned"));
        let after = page.after.as_ref().map_or("", Owner::as_str);
        let script = script.arg(after).arg(page.limit);
        let found: Vec<String> = self.connections.read(script).await?;
        let owners: Result<_, _> = found.into_iter().map(Owner::stored).collect();
        owners.map_err(rows::unreadable)
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        let (set, age) = match what {
            Purge::Requests { age } => ("ended", age),
            Purge::CapacityChanges { age } => ("changes", age),
            Purge::Sessions { age } => ("sessions", age),
            Purge::Semaphores { age } => return self.purge_semaphores(age, limit).await,
        };
        self.delete(set, age, limit).await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.count_all().await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        self.mend(name).await
    }
}

impl Redis {
    /// Deletes at most `limit` rows of a set that are older than `age`. Returns how many.
    pub(super) async fn delete(&self, set: &str, age: Duration, limit: u32) -> Result<u64, Error> {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let mut script = PURGE.key(self.keys.of(set));
        script.arg(self.keys.of("")).arg(set).arg(age).arg(limit);
        let context = "deleting old rows";
        self.connections.write(&script, context).await
    }

    /// Live requests of `owner`.
    pub(super) async fn owned_by(&self, owner: &Owner, limit: u32) -> Result<Vec<Request>, Error> {
        let owner = owner.as_str();
        let range = SetRange::of_bytes(format!("[{owner}\0"), format!("({owner}\x01"));
        let (_, found) = self.find("r", "owned", &range, limit as usize).await?;
        rows::all(found)
    }

    /// Live requests that have lapsed, on the semaphores `names` or, without any, on all.
    async fn lapsed(&self, names: &[SemaphoreName], limit: u32) -> Result<Vec<Request>, Error> {
        let now = self.now().await?;
        let left_out = self.looks.left_out(names, now);
        let mut script = DUE.key(self.keys.of("sessions"));
        script.arg(self.keys.of("")).arg(now.as_microsecond());
        script.arg(left_out.map_or(0, Timestamp::as_microsecond));
        script.arg(limit);
        for name in names {
            script.arg(name.as_str());
        }
        let found: Vec<Row> = self.connections.read(&script).await?;
        if found.is_empty() && left_out.is_none() {
            self.looks.found_nothing(names, now);
        }
        rows::all(found)
    }
}
