//! A batch: one script reads rows, another writes if none of them has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockhouse_core::store::{Commit, Error, Kind, Transaction};
use lockhouse_core::{
    Changes, ExternalId, Footprint, Loaded, OwnerSession, Request, SemaphoreName, SemaphoreRow,
    Template,
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::Redis;
use super::rows::{self, Row};
use super::writes::Writes;

/// How long a batch may begin again. Its last command may take until the answer's timeout after
/// that.
const WORK: Duration = Duration::from_secs(5);

/// How old the read rows may be at the write. If the server stood still for longer after the
/// command was sent, it refuses the command: the caller may have got the answer that the outcome is
/// unknown, and may have given up.
const FRESH: Duration = Duration::from_secs(2);

/// The pause before the next try, times the number of conflicts so far.
const PAUSE: Duration = Duration::from_micros(500);

/// A batch on the server.
pub(super) struct RedisTransaction<'a> {
    store: &'a Redis,
    deadline: Instant,
    conflicts: u32,
    read: rows::ReadRows,
    semaphores: BTreeMap<SemaphoreName, SemaphoreRow>,
    requests: BTreeMap<ExternalId, Request>,
}

impl<'a> RedisTransaction<'a> {
    pub(super) fn new(store: &'a Redis) -> Self {
        Self {
            store,
            deadline: Instant::now() + WORK,
            conflicts: 0,
            read: rows::ReadRows::default(),
            semaphores: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    /// The commands that write `changes`.
    fn writes(&self, changes: &Changes) -> Writes {
        let keys = &self.store.keys;
        // A release or a renewal must be saved even if the memory is full, also with a grant in its batch.
        let only_grows = !changes.granted.is_empty()
            && changes.ended.is_empty()
            && changes.renewed.is_empty()
            && changes.heartbeats.is_empty()
            && changes.goodbyes.is_empty();
        let mut writes = Writes::new(only_grows);
        for semaphore in &changes.semaphores {
            let was = self.semaphores.get(&semaphore.name);
            let entries = was.map(|was| keys.of_semaphore(was)).unwrap_or_default();
            writes.set(keys.semaphore(&semaphore.name), semaphore);
            writes.index(&entries, &keys.of_semaphore(semaphore));
        }
        let mut requests = self.requests.clone();
        for request in &changes.granted {
            requests.insert(request.external_id.clone(), request.clone());
        }
        for renewed in &changes.renewed {
            if let Some(request) = requests.get_mut(&renewed.external_id) {
                renewed.apply(request);
            }
        }
        for ended in &changes.ended {
            if let Some(request) = requests.get_mut(&ended.external_id) {
                ended.apply(request);
            }
        }
        for (id, request) in &requests {
            let was = self.requests.get(id);
            if was != Some(request) {
                let entries = was.map(|was| keys.of_request(was)).unwrap_or_default();
                writes.set(keys.request(id), request);
                writes.index(&entries, &keys.of_request(request));
            }
        }
        for (index, change) in changes.capacity_changes.iter().enumerate() {
            // The index distinguishes equal changes in one commit.
            let row = format!("{index} {}", rows::json(change));
            writes.index(&[], &keys.of_change(change, &row));
        }
        for session in &changes.heartbeats {
            writes.set(keys.session(&session.owner), session);
            writes.index(&[], &[keys.of_session(session)]);
        }
        for owner in &changes.goodbyes {
            writes.add(["DEL", &keys.session(owner)]);
            writes.add(["ZREM", &keys.of("sessions"), owner.as_str()]);
        }
        writes
    }
}

impl Transaction for RedisTransaction<'_> {
    const TAKES_FOR_NEW: bool = false;

    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error> {
        if Instant::now() > self.deadline {
            let problem = "other processes kept changing the rows of the batch; try again";
            return Err(Error::new(Kind::Conflict, problem));
        }
        let semaphores: Vec<_> = footprint.semaphores_to_read().collect();
        let keys = &self.store.keys;
        let all = semaphores.iter().map(|name| keys.semaphore(name));
        let all = all.chain(footprint.requests.iter().map(|id| keys.request(id)));
        let all = all.chain(footprint.owners.iter().map(|owner| keys.session(owner)));
        let all = all.chain(footprint.templates.then(|| keys.of("templates")));
        self.read = self.store.load(all).await?;
        let (of_semaphores, rest) = self.read.values.split_at(semaphores.len());
        let (of_requests, rest) = rest.split_at(footprint.requests.len());
        let (of_owners, of_templates) = rest.split_at(footprint.owners.len());
        let templates: Vec<Vec<Template>> = rows::all(of_templates)?;
        self.semaphores = by_key(of_semaphores, |row: &SemaphoreRow| row.name.clone())?;
        self.requests = by_key(of_requests, |row: &Request| row.external_id.clone())?;
        Ok(Loaded {
            now: self.read.at,
            semaphores: self.semaphores.clone(),
            requests: self.requests.clone(),
            owners: by_key(of_owners, |row: &OwnerSession| row.owner.clone())?,
            templates: templates.concat(),
        })
    }

    async fn save(&mut self, changes: Changes, _: &BTreeSet<&ExternalId>) -> Result<Commit, Error> {
        let writes = self.writes(&changes);
        let read = std::mem::take(&mut self.read);
        let latest = read.at + FRESH;
        let context = "doing a batch";
        if self.store.save(read, latest, writes, context).await? {
            return Ok(Commit::Done);
        }
        // No pause after the first conflict, since the other batch is done. After more conflicts, a
        // random pause separates the batches.
        sleep((PAUSE * self.conflicts).mul_f64(fastrand::f64())).await;
        self.conflicts += 1;
        Ok(Commit::Outdated)
    }
}

fn by_key<K: Ord, T: DeserializeOwned>(
    rows: &[Row],
    key: impl Fn(&T) -> K,
) -> Result<BTreeMap<K, T>, Error> {
    let rows: Vec<T> = rows::all(rows)?;
    Ok(rows.into_iter().map(|row| (key(&row), row)).collect())
}
