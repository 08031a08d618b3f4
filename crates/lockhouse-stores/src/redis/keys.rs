//! The keys of a store, and the entries of its indexes.
//!
//! All keys begin with the namespace as a hash tag, `{lockhouse}:`, so that a cluster keeps them on one node. Parts of
//! an entry are separated by a zero byte, which no name has.
//!
//! | key | what |
//! |---|---|
//! | `schema` | the version of the schema |
//! | `s:NAME`, `r:ID`, `o:OWNER` | the rows of semaphores, requests and owners' sessions |
//! | `names`, `ever` | semaphores that exist, and all semaphores including deleted ones, by bytes |
//! | `deleted` | deleted semaphores, by when they were deleted |
//! | `live`, `on:NAME`, `of:OWNER` | live requests by the number of their grant |
//! | `expiring`, `expiring:NAME` | live requests with a TTL, by their expiry |
//! | `lasting` | live requests without a TTL, by their creation |
//! | `owned`, `held` | `OWNER ID` and `NAME OWNER ID` of live requests with an owner, by bytes |
//! | `ended` | ended requests, by when they ended |
//! | `sessions` | owners with a session, by when it lapses |
//! | `history:NAME`, `changes` | capacity changes in their order, and `NAME CHANGE` of all by their time |
//! | `templates`, `tokens` | all templates and all access tokens, in one row each |
//! | `made:PATTERN` | a template's semaphores that were not resized by hand, by capacity |
//! | `unused:PATTERN` | those that hold nothing, by their last use |
//! | `waiting:NAME`, `shown` | the list of waiters of each process, and `NAME PROCESS` by when it was written |
//! | `number` | the last number of a grant or a change |

use lockhouse_core::{
    CapacityChange, Epoch, ExternalId, Owner, OwnerSession, Request, SemaphoreName, SemaphoreRow,
    Timestamp,
};

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

    pub(super) fn of(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key called `kind` for one `name`.
    pub(super) fn each(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}:{name}", self.prefix)
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

    fn entry(&self, set: &str, score: Score, member: impl ToString) -> SetEntry {
        SetEntry {
            key: self.of(set),
            score,
            member: member.to_string(),
        }
    }

    /// The entry by which a refusal on the semaphore `name` finds the request `id` once it has lapsed.
    pub(super) fn expiring(
        &self,
        name: &SemaphoreName,
        at: Timestamp,
        id: &ExternalId,
    ) -> SetEntry {
        self.entry(&format!("expiring:{name}"), Score::At(at), id)
    }

    pub(super) fn of_semaphore(&self, semaphore: &SemaphoreRow) -> Vec<SetEntry> {
        let mut entries = vec![self.entry("ever", Score::Bytes, &semaphore.name)];
        if semaphore.exists() {
            entries.push(self.entry("names", Score::Bytes, &semaphore.name));
        }
        // The epoch's row looks like that of a deleted semaphore, and stays.
        if let Some(at) = semaphore.deleted_at
            && semaphore.name != Epoch::semaphore()
        {
            entries.push(self.entry("deleted", Score::At(at), &semaphore.name));
        }
        let origin = semaphore.origin.as_ref();
        // One that was resized by hand no longer follows its template.
        if let Some(origin) = origin.filter(|origin| !origin.is_resized) {
            let mut add = |set, score| {
                let set = format!("{set}:{}", origin.template);
                entries.push(self.entry(&set, score, &semaphore.name));
            };
            add("made", Score::Count(semaphore.capacity.value()));
            if semaphore.in_use == 0 {
                add("unused", Score::At(origin.used_at));
            }
        }
        entries
    }

    pub(super) fn of_request(&self, request: &Request) -> Vec<SetEntry> {
        let id = &request.external_id;
        if let Some(at) = request.released_at() {
            return vec![self.entry("ended", Score::At(at), id)];
        }
        let mut entries = vec![self.entry("live", Score::Number, id)];
        match request.expires_at {
            Some(at) => entries.push(self.entry("expiring", Score::At(at), id)),
            None => entries.push(self.entry("lasting", Score::At(request.created_at), id)),
        }
        let owner = request.owner.as_ref().map(Owner::as_str);
        if let Some(owner) = owner {
            entries.push(self.entry(&format!("of:{owner}"), Score::Number, id));
            entries.push(self.entry("owned", Score::Bytes, format!("{owner}\0{id}")));
        }
        for name in request.permits.iter().map(|permit| &permit.semaphore) {
            entries.push(self.entry(&format!("on:{name}"), Score::Number, id));
            if let Some(at) = request.expires_at {
                entries.push(self.expiring(name, at, id));
            }
            if let Some(owner) = owner {
                entries.push(self.entry("held", Score::Bytes, format!("{name}\0{owner}\0{id}")));
            }
        }
        entries
    }

    pub(super) fn of_session(&self, session: &OwnerSession) -> SetEntry {
        let owner = session.owner.as_str();
        self.entry("sessions", Score::At(session.expires_at), owner)
    }

    /// The entries of a change, which is kept as `row`.
    pub(super) fn of_change(&self, change: &CapacityChange, row: &str) -> [SetEntry; 2] {
        let name = &change.semaphore;
        let at = Score::At(change.changed_at);
        [
            self.entry(&format!("history:{name}"), Score::Number, row),
            self.entry("changes", at, format!("{name}\0{row}")),
        ]
    }
}

/// An entry of a sorted set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetEntry {
    pub(super) key: String,
    pub(super) score: Score,
    pub(super) member: String,
}

/// The sort key of an entry.
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
