//! The keys of a store, and the entries of its indexes.
//!
//! All keys begin with the namespace as a hash tag, `{lockhouse}:`, so that a cluster keeps them on one node. Parts of
//! an entry are separated by a zero byte, which no name has.
//!
//! | key | what |
//! |---|---|
//! | `schema` | the version of the schema |
//! | `s:NAME`, `r:ID`, `o:OWNER` | the rows of semaphores, requests and owners' sessions |
//! | `names`, `ever` | semaphores that exist, and all that there ever were, by bytes |
//! | `live`, `on:NAME`, `of:OWNER` | live requests by the number of their grant |
//! | `expiring`, `expiring:NAME` | those with a time to live, by when it passes |
//! | `lasting` | those without, by when they were made |
//! | `owned`, `held` | `OWNER ID` and `NAME OWNER ID` of those with an owner, by bytes |
//! | `ended` | ended requests, by when they ended |
//! | `sessions` | owners with a session, by when it lapses |
//! | `history:NAME`, `changes` | capacity changes in their order, and `NAME CHANGE` of all by their time |
//! | `templates` | all templates, in one row |
//! | `tokens` | all access tokens, in one row |
//! | `made:PATTERN`, `unused:PATTERN` | a template's semaphores by capacity, unless resized by hand; those that hold nothing, by their last use |
//! | `waiting:NAME`, `shown` | the list of waiters of each process, and `NAME PROCESS` by when it was written |
//! | `number` | the last number of a grant or a change |

use lockhouse_core::{ExternalId, Owner, Request, Semaphore, SemaphoreName, Timestamp};

/// Builds the keys of a store. All of them begin with one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            prefix: format!("{{{namespace}}}:"),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn of(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key called `kind` for one `name`.
    pub(super) fn each(&self, kind: &str, name: impl AsRef<str>) -> String {
        format!("{}{kind}:{}", self.prefix, name.as_ref())
    }

    pub(super) fn semaphore(&self, name: &SemaphoreName) -> String {
        self.each("s", name.as_str())
    }

    pub(super) fn request(&self, id: &ExternalId) -> String {
        self.each("r", id.as_str())
    }

    pub(super) fn session(&self, owner: &Owner) -> String {
        self.each("o", owner.as_str())
    }

    /// All the entries that the indexes have of `semaphore`, for its template.
    pub(super) fn of_template(&self, semaphore: &Semaphore) -> Vec<Entry> {
        let Some(origin) = &semaphore.origin else {
            return Vec::new();
        };
        let entry = |kind, score| Entry {
            key: self.each(kind, origin.template.as_str()),
            score,
            member: semaphore.name.to_string(),
        };
        let mut entries = Vec::new();
        if !origin.is_resized {
            entries.push(entry("made", Score::Count(semaphore.capacity.value())));
        }
        if semaphore.in_use == 0 {
            entries.push(entry("unused", Score::At(origin.used_at)));
        }
        entries
    }

    /// All the entries that the indexes have of `request`.
    pub(super) fn entries(&self, request: &Request) -> Vec<Entry> {
        let id = request.external_id.as_str();
        let entry = |key: String, score, member: &str| Entry {
            key,
            score,
            member: member.to_owned(),
        };
        if let Some(at) = request.released_at() {
            return vec![entry(self.of("ended"), Score::At(at), id)];
        }
        let mut entries = vec![entry(self.of("live"), Score::Number, id)];
        match request.expires_at {
            Some(at) => entries.push(entry(self.of("expiring"), Score::At(at), id)),
            None => entries.push(entry(self.of("lasting"), Score::At(request.created_at), id)),
        }
        if let Some(owner) = &request.owner {
            let owner = owner.as_str();
            entries.push(entry(self.each("of", owner), Score::Number, id));
            let owned = format!("{owner}\0{id}");
            entries.push(entry(self.of("owned"), Score::Bytes, &owned));
        }
        for permit in &request.permits {
            let name = permit.semaphore.as_str();
            entries.push(entry(self.each("on", name), Score::Number, id));
            if let Some(at) = request.expires_at {
                entries.push(entry(self.each("expiring", name), Score::At(at), id));
            }
            if let Some(owner) = &request.owner {
                let held = format!("{name}\0{}\0{id}", owner.as_str());
                entries.push(entry(self.of("held"), Score::Bytes, &held));
            }
        }
        entries
    }
}

/// An entry of a sorted set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) score: Score,
    pub(super) member: String,
}

/// What an entry is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Score {
    /// A time, in microseconds.
    At(Timestamp),
    /// A capacity.
    Count(u32),
    /// The number of the grant.
    Number,
    /// Its own bytes.
    Bytes,
}
