//! A store in one SQLite file, for any number of processes on one machine.
//!
//! A batch runs in one `BEGIN IMMEDIATE` transaction: it has the file's only write lock from the
//! start, so the loaded rows do not change until its changes are committed. The file is in WAL
//! mode, so reads see the last commit and never wait. With `synchronous=FULL` a commit is on the
//! disk when it is answered.

mod clock;
mod connection;
mod connections;
mod due;
mod error;
mod insert;
mod load;
mod purge;
mod read;
mod recount;
mod rows;
mod save;
mod schema;
mod templates;
#[cfg(test)]
mod tests;
mod tokens;
mod transaction;
mod url;
mod waiting_list;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{
    self, Batch, Cursor, Due, Error, Held, Holders, Listing, Maintenance, Migration, NewToken,
    Notification, Page, Purge, Shown, ShownAt, ShownWaiter, Stale, Store, Templates, TokenList,
    Tokens, WaitingList, transact_at_once,
};
use lockhouse_core::{
    CapacityChange, ExternalId, Footprint, NamePrefix, Outcome, Owner, Pattern, ProcessId, Recount,
    Request, SemaphoreName, SemaphoreRow, Template, TemplateDefinition, Timestamp, Token,
    TokenName,
};

use crate::batch::MAX_BATCH;
use crate::lapsed::Looks;
use connections::Connections;
use transaction::SqliteTransaction;

/// Keeps permits in one SQLite file on a local disk.
///
/// - **Clock**: SQLite runs in this process, so the store's clock is this machine's, read once the
///   write lock is held. All processes that share the file share that clock.
/// - **Lock**: one batch at a time. Within a process, batches are served first come, first served;
///   between processes, the first that finds the lock free. A wait for it ends within 5 s.
/// - **Cancellation**: a call whose future is dropped while it waits for its turn does nothing.
///   After that it runs to its end.
/// - **Runtime**: calls need Tokio with its timer on, and run on its threads that may block.
/// - Network file systems don't share WAL between machines: use a database server there.
///
/// ```
/// use lockhouse_stores::Sqlite;
///
/// let store = Sqlite::open("sqlite:/var/lib/lockhouse/permits.db")?;
/// # Ok::<(), lockhouse_core::store::Error>(())
/// ```
#[derive(Debug)]
pub struct Sqlite {
    connections: Connections,
    looks: Arc<Looks>,
}

impl Sqlite {
    /// A store in the file of `sqlite:PATH`, where PATH is relative or absolute, or
    /// `sqlite:///PATH`, where it is absolute. PATH is taken literally: `%20` is no space, and it
    /// cannot contain `?`.
    ///
    /// It does not open the file yet. [`migrate`](Migration::migrate) creates the file, and its
    /// folder if that is missing; before that the other calls fail.
    ///
    /// # Errors
    /// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) if the URL names no file
    /// or has parameters.
    pub fn open(url: &str) -> Result<Self, Error> {
        let file = url::parse(url)?;
        Ok(Self {
            connections: Connections::new(&file),
            looks: Arc::default(),
        })
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let batch = batch.clone();
        let work = move |transaction: rusqlite::Transaction<'_>| {
            transact_at_once(&mut SqliteTransaction::new(transaction), &batch)
        };
        self.connections.write(work).await
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    /// This store has no row locks.
    async fn locked(&self, _: &Footprint) -> Result<Footprint, Error> {
        Ok(Footprint::default())
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let name = name.clone();
        let work = move |snapshot: &_| load::semaphore(snapshot, &name);
        let found = self.connections.read(work).await?;
        Ok(found.filter(SemaphoreRow::exists))
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        let names = names.to_vec();
        let work = move |snapshot: &_| {
            let found = names.iter().map(|name| load::semaphore(snapshot, name));
            found.filter_map(Result::transpose).collect()
        };
        let found: Vec<SemaphoreRow> = self.connections.read(work).await?;
        Ok(found.into_iter().filter(SemaphoreRow::exists).collect())
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        let external_id = external_id.clone();
        let work = move |snapshot: &_| load::request(snapshot, &external_id);
        self.connections.read(work).await
    }

    async fn ready(&self) -> Result<(), Error> {
        self.connections.read(|_| Ok(())).await
    }

    fn connections(&self) -> store::Connections {
        self.connections.state()
    }
}

#[async_trait]
impl Templates for Sqlite {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        let definition = definition.clone();
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let defined = templates::define(&transaction, &definition)?;
            transaction.commit().map_err(error::commit)?;
            Ok(defined)
        };
        self.connections.write(work).await
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let pattern = pattern.clone();
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let was_there = templates::delete(&transaction, &pattern)?;
            transaction.commit().map_err(error::commit)?;
            Ok(was_there)
        };
        self.connections.write(work).await
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        let page = page.clone();
        let work = move |snapshot: &_| templates::page(snapshot, &page);
        self.connections.read(work).await
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let template = template.clone();
        let work = move |snapshot: &_| templates::to_follow(snapshot, &template, limit);
        self.connections.read(work).await
    }
}

#[async_trait]
impl Listing for Sqlite {
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let (prefix, page) = (prefix.cloned(), page.clone());
        let work = move |snapshot: &_| read::semaphores(snapshot, prefix.as_ref(), &page);
        self.connections.read(work).await
    }

    async fn semaphores_ever(
        &self,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let page = page.clone();
        let work = move |snapshot: &_| read::semaphores_ever(snapshot, &page);
        self.connections.read(work).await
    }

    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        let (of, page) = (of.clone(), page.clone());
        let work = move |snapshot: &_| walk::holders(snapshot, &of, &page);
        self.connections.read(work).await
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let name = name.clone();
        let work = move |snapshot: &_| read::history(snapshot, &name, limit);
        self.connections.read(work).await
    }
}

#[async_trait]
impl Maintenance for Sqlite {
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        match which {
            Due::Lapsed { on: None } => {
                let work = move |snapshot: &_| due::lapsed(snapshot, limit);
                self.connections.read(work).await
            }
            Due::Lapsed { on: Some(on) } => {
                let (on, looks) = (on.to_vec(), Arc::clone(&self.looks));
                let work = move |snapshot: &_| due::lapsed_on(snapshot, &looks, &on, limit);
                self.connections.read(work).await
            }
            Due::OwnedBy(owner) => {
                let owner = owner.clone();
                let work = move |snapshot: &_| due::owned_by(snapshot, &owner, limit);
                self.connections.read(work).await
            }
        }
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        let page = page.clone();
        let work = move |snapshot: &_| due::stale(snapshot, age, &page);
        self.connections.read(work).await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        let page = page.clone();
        let work = move |snapshot: &_| read::owners(snapshot, &page);
        self.connections.read(work).await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let gone = purge::purge(&transaction, what, limit)?;
            transaction.commit().map_err(error::commit)?;
            Ok(gone)
        };
        self.connections.write(work).await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.connections.read_long(recount::recount).await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let name = name.clone();
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let was = recount::repair(&transaction, &name)?;
            transaction.commit().map_err(error::commit)?;
            Ok(was)
        };
        self.connections.write_long(work).await
    }
}

#[async_trait]
impl WaitingList for Sqlite {
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        let (waiting, gone) = (waiting.to_vec(), gone.to_vec());
        let work = move |transaction: rusqlite::Transaction<'_>| {
            waiting_list::show(&transaction, process, &waiting, &gone)?;
            transaction.commit().map_err(error::commit)
        };
        self.connections.write(work).await
    }

    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        let name = name.clone();
        let work = move |snapshot: &_| waiting_list::shown(snapshot, &name);
        self.connections.read(work).await
    }

    async fn shown_at(&self, names: &[SemaphoreName]) -> Result<ShownAt, Error> {
        let names = names.to_vec();
        let work = move |snapshot: &_| waiting_list::shown_at(snapshot, &names);
        self.connections.read(work).await
    }

    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let gone = waiting_list::forget(&transaction, age, limit)?;
            transaction.commit().map_err(error::commit)?;
            Ok(gone)
        };
        self.connections.write(work).await
    }
}

#[async_trait]
impl Tokens for Sqlite {
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        let page = page.clone();
        let work = move |snapshot: &_| tokens::tokens(snapshot, &page);
        self.connections.read(work).await
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        let token = token.clone();
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let made = tokens::add(&transaction, &token)?;
            transaction.commit().map_err(error::commit)?;
            Ok(made)
        };
        self.connections.write(work).await
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        let name = name.clone();
        let work = move |transaction: rusqlite::Transaction<'_>| {
            let revoked = tokens::revoke(&transaction, &name)?;
            transaction.commit().map_err(error::commit)?;
            Ok(revoked)
        };
        self.connections.write(work).await
    }

    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        let owners = owners.to_vec();
        let work = move |snapshot: &_| tokens::owners_in_use(snapshot, &owners);
        self.connections.read(work).await
    }
}

#[async_trait]
impl Notification for Sqlite {
    /// This store has no notifications.
    async fn changed(&self, _: &BTreeSet<SemaphoreName>, _: ProcessId) -> BTreeSet<SemaphoreName> {
        std::future::pending().await
    }
}

#[async_trait]
impl Migration for Sqlite {
    async fn migrate(&self) -> Result<(), Error> {
        self.connections.migrate().await
    }
}
