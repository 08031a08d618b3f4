//! A batch: one script reads, another writes if nothing of what was read has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockhouse_core::store::{Commit, Error, Kind, Transaction};
use lockhouse_core::{
    Changes, ExternalId, Footprint, Loaded, Request, Semaphore, SemaphoreName, State, Timestamp,
};
use tokio::time::{Instant, sleep};

use super::answer::{self, Rows};
use super::connection::SAVE;
use super::keys::{Entry, Score};
use super::{Inner, rows};

/// How long a batch may work. The last command of it may take as long as an answer.
const WORK: Duration = Duration::from_secs(5);

/// How old what was read may be when it is written. A command that was sent to a server which then stood still for longer is
/// refused when the server comes to it: by then its caller has been told that nobody knows.
const FRESH: Duration = Duration::from_secs(2);

/// How long to pause, for each conflict that there was, before the next try.
const PAUSE: Duration = Duration::from_micros(500);

const CONTEXT: &str = "doing a batch";

/// A batch on the server.
pub(super) struct RedisTransaction<'a> {
    store: &'a Inner,
    deadline: Instant,
    conflicts: u32,
    read: Read,
}

/// What was read.
#[derive(Default)]
struct Read {
    at: Timestamp,
    keys: Vec<String>,
    /// The value of each key; empty for one that is not there.
    values: Vec<Vec<u8>>,
    requests: BTreeMap<ExternalId, Request>,
    semaphores: BTreeMap<SemaphoreName, Semaphore>,
}

impl<'a> RedisTransaction<'a> {
    pub(super) fn new(store: &'a Inner) -> Self {
        Self {
            store,
            deadline: Instant::now() + WORK,
            conflicts: 0,
            read: Read::default(),
        }
    }
}

impl Transaction for RedisTransaction<'_> {
    const TAKES_FOR_NEW: bool = false;

    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error> {
        if Instant::now() > self.deadline {
            let problem = "other processes kept changing what the batch touches; try again";
            return Err(Error::new(Kind::Conflict, problem));
        }
        let keys = &self.store.keys;
        let semaphores = footprint.semaphores.iter();
        let requests = footprint.requests.iter();
        let owners = footprint.owners.iter();
        let all = semaphores.clone().map(|name| keys.semaphore(name));
        let all = all.chain(requests.clone().map(|id| keys.request(id)));
        let all = all.chain(owners.clone().map(|owner| keys.session(owner)));
        let templates = footprint.templates.then(|| keys.of("templates"));
        let all = all.chain(templates);
        let Rows { at, keys, values } = self.store.rows(all.collect()).await?;
        let mut loaded = Loaded {
            now: at,
            semaphores: BTreeMap::new(),
            requests: BTreeMap::new(),
            owners: BTreeMap::new(),
            templates: Vec::new(),
        };
        // The first is the schema's.
        let mut found = values[1..].iter();
        let mut next = || found.next().filter(|row| !row.is_empty());
        for name in semaphores {
            if let Some(row) = next() {
                let semaphore = rows::semaphore(name.clone(), row)?;
                loaded.semaphores.insert(name.clone(), semaphore);
            }
        }
        for id in requests {
            if let Some(row) = next() {
                let request = rows::request(id.clone(), row)?;
                loaded.requests.insert(id.clone(), request);
            }
        }
        for owner in owners {
            if let Some(row) = next() {
                let session = rows::session(owner.clone(), row)?;
                loaded.owners.insert(owner.clone(), session);
            }
        }
        if footprint.templates
            && let Some(row) = next()
        {
            loaded.templates = rows::templates(row)?;
        }
        self.read = Read {
            at,
            keys,
            values,
            requests: loaded.requests.clone(),
            semaphores: loaded.semaphores.clone(),
        };
        Ok(loaded)
    }

    async fn save(&mut self, changes: Changes, _: &BTreeSet<&ExternalId>) -> Result<Commit, Error> {
        let writes = self.writes(changes);
        let latest = self.read.at + FRESH;
        let mut arguments = vec![
            latest.as_microsecond().to_string().into_bytes(),
            self.store.keys.of("number").into_bytes(),
            writes.numbers.to_string().into_bytes(),
        ];
        arguments.append(&mut self.read.values);
        arguments.extend(writes.words.into_iter().map(String::into_bytes));
        let saved = self
            .store
            .write(&SAVE, &self.read.keys, &arguments, CONTEXT)
            .await?;
        match answer::text(&saved)? {
            "DONE" => Ok(Commit::Done),
            "LATE" => Ok(Commit::Outdated),
            _ => {
                // The first is for free: whoever was in the way is done. Then the others make room for each other.
                sleep((PAUSE * self.conflicts).mul_f64(fastrand::f64())).await;
                self.conflicts += 1;
                Ok(Commit::Outdated)
            }
        }
    }
}

impl RedisTransaction<'_> {
    /// The commands that write `changes`.
    fn writes(&self, changes: Changes) -> Writes {
        let keys = &self.store.keys;
        let mut writes = Writes::default();
        for semaphore in &changes.semaphores {
            let name = semaphore.name.as_str();
            let row = rows::of_semaphore(semaphore);
            writes.add(["SET", &keys.semaphore(&semaphore.name), &row]);
            let was = self.read.semaphores.get(&semaphore.name);
            if was.is_none() {
                writes.add(["ZADD", &keys.of("ever"), "0", name]);
            }
            let template = was.map(|was| keys.of_template(was)).unwrap_or_default();
            writes.index(&template, &keys.of_template(semaphore));
            match (was.is_some_and(Semaphore::exists), semaphore.exists()) {
                (false, true) => writes.add(["ZADD", &keys.of("names"), "0", name]),
                (true, false) => writes.add(["ZREM", &keys.of("names"), name]),
                _ => {}
            }
        }
        for request in &changes.granted {
            let row = rows::of_request(request);
            writes.add(["SET", &keys.request(&request.external_id), &row]);
            writes.index(&[], &keys.entries(request));
        }
        for request in self.changed(&changes) {
            let id = &request.external_id;
            let row = rows::of_request(&request);
            writes.add(["SET", &keys.request(id), &row]);
            let was = keys.entries(&self.read.requests[id]);
            writes.index(&was, &keys.entries(&request));
        }
        for (index, change) in changes.capacity_changes.iter().enumerate() {
            let name = change.semaphore.as_str();
            let row = rows::of_change(index, change);
            let at = change.changed_at.as_microsecond().to_string();
            writes.number(&keys.each("history", name), &row);
            let all = format!("{name}\0{row}");
            writes.add(["ZADD", &keys.of("changes"), &at, &all]);
        }
        for session in &changes.heartbeats {
            let at = session.expires_at.as_microsecond().to_string();
            let row = rows::of_session(session);
            writes.add(["SET", &keys.session(&session.owner), &row]);
            writes.add(["ZADD", &keys.of("sessions"), &at, session.owner.as_str()]);
        }
        for owner in &changes.goodbyes {
            writes.add(["DEL", &keys.session(owner)]);
            writes.add(["ZREM", &keys.of("sessions"), owner.as_str()]);
        }
        writes
    }

    /// The requests that were loaded and are renewed or ended, as they are afterwards.
    fn changed(&self, changes: &Changes) -> impl Iterator<Item = Request> {
        let mut changed = BTreeMap::new();
        let mut request = |id: &ExternalId, change: &dyn Fn(&mut Request)| {
            let was = self.read.requests.get(id);
            let Some(was) = changed.get(id).or(was).cloned() else {
                return;
            };
            let mut is: Request = was;
            change(&mut is);
            changed.insert(id.clone(), is);
        };
        for renewed in &changes.renewed {
            request(&renewed.external_id, &|request| {
                request.ttl = Some(renewed.ttl);
                request.expires_at = Some(renewed.expires_at);
            });
        }
        for ended in &changes.ended {
            request(&ended.external_id, &|request| {
                let (reason, at) = (ended.reason, ended.at);
                request.state = State::Released { reason, at };
                request.ended_by = ended.by.clone();
            });
        }
        changed.into_values()
    }
}

/// Commands, each after the count of its words.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) words: Vec<String>,
    numbers: usize,
}

impl Writes {
    pub(super) fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.words.push(N.to_string());
        self.words.extend(words.map(str::to_owned));
    }

    /// Adds `member` with the next number as its score.
    fn number(&mut self, key: &str, member: &str) {
        self.numbers += 1;
        let number = self.numbers.to_string();
        self.add(["NUMBER", key, &number, member]);
    }

    /// Makes the entries of a request, which `were`, those that `are`.
    pub(super) fn index(&mut self, were: &[Entry], are: &[Entry]) {
        for Entry { key, member, .. } in were {
            let is_left = |is: &Entry| is.key == *key && is.member == *member;
            if !are.iter().any(is_left) {
                self.add(["ZREM", key, member]);
            }
        }
        let mut number = None;
        for entry in are.iter().filter(|entry| !were.contains(entry)) {
            let Entry { key, score, member } = entry;
            match score {
                Score::At(at) => self.add(["ZADD", key, &at.as_microsecond().to_string(), member]),
                Score::Count(count) => self.add(["ZADD", key, &count.to_string(), member]),
                Score::Bytes => self.add(["ZADD", key, "0", member]),
                Score::Number => {
                    let number = number.get_or_insert_with(|| {
                        self.numbers += 1;
                        self.numbers.to_string()
                    });
                    let number = number.clone();
                    self.add(["NUMBER", key, &number, member]);
                }
            }
        }
    }
}
