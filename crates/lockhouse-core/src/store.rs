//! What keeps the permits: the [`Store`] trait and its errors.

mod layer;

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    CapacityChange, Command, ExternalId, Footprint, Outcome, Owner, Recount, Request, Semaphore,
    SemaphoreName, Timestamp,
};

pub use layer::{Call, Layer};

/// Commands to decide and save in one commit.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What to do, in this order.
    pub commands: Vec<Command>,
    /// What the commands touch, as far as it is known beforehand.
    pub footprint: Footprint,
}

impl Batch {
    /// A batch of `commands` that touch what they name, and nothing else that is known yet.
    pub fn new(commands: Vec<Command>) -> Self {
        let footprint = Footprint::of(&commands, []);
        Self {
            commands,
            footprint,
        }
    }
}

/// A piece of a listing.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// Begin after this key; without it, at the first.
    pub after: Option<K>,
    /// At most so many.
    pub limit: u32,
}

/// Which live requests are listed: those that match all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Only those that hold permits of this semaphore.
    pub on: Option<SemaphoreName>,
    /// Only those of this owner.
    pub owner: Option<Owner>,
}

impl Holders {
    /// Those that hold permits of `name`.
    pub fn on(name: SemaphoreName) -> Self {
        Self {
            on: Some(name),
            owner: None,
        }
    }
}

/// Live requests that seem due to end.
#[derive(Clone, Copy, Debug)]
pub enum Due<'a> {
    /// Their time has passed, or their owner's session has.
    Lapsed {
        /// Only those that hold permits of one of these.
        on: Option<&'a [SemaphoreName]>,
    },
    /// They are this owner's.
    OwnedBy(&'a Owner),
}

/// What a look at the oldest live requests found.
#[derive(Clone, Debug, Default)]
pub struct Stale {
    /// Those that no session keeps, in any order.
    pub requests: Vec<Request>,
    /// Who was made later was not looked at; none, if there is nobody to look at any more.
    pub looked_to: Option<Timestamp>,
}

/// Rows of the past that may go.
#[derive(Clone, Copy, Debug)]
pub enum Purge {
    /// Requests, with their permits, that ended so long ago.
    Requests {
        /// How long.
        age: Duration,
    },
    /// Capacity changes that were made so long ago.
    CapacityChanges {
        /// How long.
        age: Duration,
    },
    /// Sessions that lapsed so long ago, of owners who hold nothing.
    Sessions {
        /// How long.
        age: Duration,
    },
}

/// Keeps semaphores and requests, durably, for any number of processes at once.
///
/// # Contract
/// - [`transact`](Store::transact) is the only call that changes permits. It takes effect in full
///   or not at all, and is serializable against every other `transact` on the same store by any
///   process: between reading what [`decide`](crate::decide()) is given and the commit of its
///   changes, nobody else may have changed any of it. A store that locks takes its locks in the
///   order of the [`Footprint`]; one that is optimistic makes its write conditional on what it
///   read, and begins again when the condition fails.
/// - [`Loaded::now`](crate::Loaded::now) is the store's clock, read after the locks were held.
/// - When `transact` answers, its changes survive a crash of the store.
/// - A batch of which nothing must be saved writes nothing.
/// - An error says truly whether the batch may have been applied
///   ([`Error::maybe_applied`]), and if so, what was decided ([`Error::decided`]) where that is known.
///   After an error the store holds no lock and no half-read connection.
/// - Every call ends within 10 s, one way or the other. What goes over all rows may take longer where
///   they are many: migrating, recounting and repairing.
/// - A store with row locks waits for one for about half a second. Then it rolls back and answers with
///   [`Kind::Locked`] and the rows that are still locked, so that a row which another transaction
///   keeps delays only the commands that need it (P13).
/// - Dropping the future of a call leaves the store usable; the call may still take effect.
/// - The reads see what is committed, and wait for no lock.
/// - Names and ids are compared by bytes.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Locks and loads what the batch touches, decides, saves and commits.
    ///
    /// One outcome a command, in their order.
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error>;

    /// Those of `rows` that another transaction keeps locked, for longer than a commit takes. Waits for none
    /// of them, and keeps none locked. A store without row locks answers with none.
    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error>;

    /// The semaphore called `name`, if it exists and is not deleted.
    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error>;

    /// Semaphores that are not deleted, in byte order of their names.
    async fn semaphores(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error>;

    /// Semaphores, those too that are deleted or were only made ready, in byte order of their names.
    async fn semaphores_ever(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        let mut all = self.recount().await?.semaphores;
        all.sort_by(|a, b| a.semaphore.name.cmp(&b.semaphore.name));
        let all = all.into_iter().map(|recounted| recounted.semaphore);
        let rest = all.filter(|semaphore| {
            page.after
                .as_ref()
                .is_none_or(|after| semaphore.name > *after)
        });
        Ok(rest.take(page.limit as usize).collect())
    }

    /// Those semaphores of `names` that exist and are not deleted, in any order. It is asked again
    /// and again while somebody waits for them: one statement should do.
    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
        let mut found = Vec::new();
        for name in names {
            found.extend(self.semaphore(name).await?);
        }
        Ok(found)
    }

    /// Waits until permits of `on`, which somebody here waits for, may have come back through
    /// another process, and says of which; none means that it may be any of them.
    ///
    /// A store that is told of [changes](crate::Changes::freed) answers; this one never does, and
    /// those who wait look again by themselves. The future may be dropped at any time: what comes
    /// between two calls is told by the second, if that is not seconds later. An answer for
    /// nothing, or none for something, costs time and nothing else.
    async fn changed(&self, on: &BTreeSet<SemaphoreName>) -> BTreeSet<SemaphoreName> {
        let _ = on;
        std::future::pending().await
    }

    /// The request known by `external_id`, live or ended.
    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error>;

    /// Live requests, in byte order of their ids.
    async fn holders(&self, of: &Holders, page: &Page<ExternalId>) -> Result<Vec<Request>, Error>;

    /// The latest changes of the capacity of `name`, newest first, at most `limit`.
    async fn history(&self, name: &SemaphoreName, limit: u32)
    -> Result<Vec<CapacityChange>, Error>;

    /// At most `limit` live requests that seem due to end. Reading them changes nothing: each is
    /// looked at again, under locks, by the [`Cause`](crate::Cause) that it is then ended by.
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error>;

    /// Looks at the live requests without a time to live that have been held for `age`, from the
    /// oldest on: at those made after `page.after`, `page.limit` of them and who was made in the same
    /// moment as the last. Says which of them seem due to end, since their owner has no session that
    /// goes on. So a look costs what it looks at, however many a session keeps.
    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error>;

    /// Owners of live requests, in byte order.
    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error>;

    /// Deletes at most `limit` rows of the past, in one transaction; how many they were. Fewer where
    /// others have some locked; 0 where there is nothing to delete, or others have the oldest locked.
    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error>;

    /// Counts everything anew, in one consistent read.
    async fn recount(&self) -> Result<Recount, Error>;

    /// Sets the counter of `name`, and its fence if that is behind, to what its permits say, under
    /// the semaphore's lock. Says what it was, if it was off.
    async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error>;

    /// Brings the schema up to this version. Any number of processes may do so at once; each
    /// returns when the schema is there.
    async fn migrate(&self) -> Result<(), Error>;

    /// Whether the store answers and its schema is the one that this version needs.
    async fn ready(&self) -> Result<(), Error>;
}

/// What kind of trouble a store has, which says what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Another transaction was in the way: a deadlock or a serialization failure. Nothing was applied;
    /// try the whole batch again.
    Conflict,
    /// A lock wait timed out. Nothing was applied. [`Error::locked`] names the rows that are still
    /// locked: only the commands that need them have to wait.
    Locked,
    /// The connection or the server was lost, or could not be had. Nothing was applied; try again
    /// on a fresh connection.
    Unavailable,
    /// The server has no connection left to give. Nothing was applied; one comes free before long,
    /// and whoever waits for it is in nobody's way.
    Crowded,
    /// The commit was sent and its answer was lost. Ask again to find out.
    Unknown,
    /// The store turned down what it was sent; trying the same again is no use. In a batch of
    /// several commands one of them may be to blame, so each may be tried on its own.
    Rejected,
    /// The schema is missing, older or newer than what this version needs.
    Schema,
    /// The URL or its options make no sense.
    Configuration,
}

/// What went wrong in a store.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    context: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    decided: Vec<Outcome>,
    locked: Box<Footprint>,
}

impl Error {
    /// An error of `kind`; `context` says what was being done.
    pub fn new(kind: Kind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
            decided: Vec::new(),
            locked: Box::default(),
        }
    }

    /// The same with what caused it.
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same of a batch for which this was decided before it was sent to be committed.
    pub fn after_deciding(mut self, outcomes: Vec<Outcome>) -> Self {
        self.decided = outcomes;
        self
    }

    /// What was decided, one outcome a command: if the batch was applied, it was with these. Empty if
    /// that isn't known.
    pub fn decided(&self) -> &[Outcome] {
        &self.decided
    }

    /// The same of a batch that needs these rows, which another transaction keeps locked.
    pub fn while_locked(mut self, rows: Footprint) -> Self {
        self.locked = Box::new(rows);
        self
    }

    /// The rows that another transaction kept locked when a lock wait [timed out](Kind::Locked). Empty if
    /// they were free again by the time the store looked for them.
    pub fn locked(&self) -> &Footprint {
        &self.locked
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether trying again can help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            Kind::Conflict | Kind::Locked | Kind::Unavailable | Kind::Crowded | Kind::Unknown
        )
    }

    /// Whether the batch may have been applied.
    pub fn maybe_applied(&self) -> bool {
        self.kind == Kind::Unknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
