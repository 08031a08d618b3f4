//! The calls of a store, each in a separate task.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::store::{
    Batch, Connections, Cursor, Due, Error, Held, Holders, Kind, Listing, Maintenance, Migration,
    NewToken, Notification, Page, Purge, Shown, ShownAt, ShownWaiter, Stale, Store, Templates,
    TokenList, Tokens, WaitingList,
};
use lockhouse_core::{
    CapacityChange, ExternalId, Footprint, NamePrefix, Outcome, Owner, Pattern, ProcessId, Recount,
    Request, SemaphoreName, SemaphoreRow, Template, TemplateDefinition, Timestamp, Token,
    TokenName,
};

use super::dialect::{Dialect, Names};
use super::{
    Sql, due, locked, purge, read, recount, schema, templates, tokens, transact, waiting_list, walk,
};
use crate::batch::MAX_BATCH;

#[async_trait]
impl<D: Dialect> Store for Sql<D> {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let batch = batch.clone();
        self.in_own_task(Kind::Unknown, |store| async move {
            transact::transact(&store, &batch).await
        })
        .await
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error> {
        let rows = rows.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            locked::locked(&store, &rows).await
        })
        .await
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::semaphore(&store, &name).await
        })
        .await
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        let names = names.to_vec();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::named(&store, &names).await
        })
        .await
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        let external_id = external_id.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::request(&store, &external_id).await
        })
        .await
    }

    async fn ready(&self) -> Result<(), Error> {
        self.in_own_task(Kind::Unavailable, |store| async move {
            schema::ready(&store).await
        })
        .await
    }

    fn connections(&self) -> Connections {
        self.0.pool.state()
    }
}

#[async_trait]
impl<D: Dialect> Templates for Sql<D> {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        let definition = definition.clone();
        self.in_own_task(Kind::Unknown, |store| async move {
            templates::define(&store, &definition).await
        })
        .await
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let pattern = pattern.clone();
        self.in_own_task(Kind::Unknown, |store| async move {
            templates::delete(&store, &pattern).await
        })
        .await
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            templates::list(&store, &page).await
        })
        .await
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let template = template.clone();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            templates::to_follow(&store, &template, limit).await
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> Listing for Sql<D> {
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let (names, page) = (Names::Existing(prefix.cloned()), page.clone());
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::semaphores(&store, &names, &page).await
        })
        .await
    }

    async fn semaphores_ever(
        &self,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::semaphores(&store, &Names::Ever, &page).await
        })
        .await
    }

    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        let (of, page) = (of.clone(), page.clone());
        self.in_own_task(Kind::Unavailable, |store| async move {
            walk::holders(&store, &of, &page).await
        })
        .await
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            read::history(&store, &name, limit).await
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> Maintenance for Sql<D> {
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        let wanted = which.into();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            due::due(&store, &wanted, limit).await
        })
        .await
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            due::stale(&store, age, &page).await
        })
        .await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::owners(&store, &page).await
        })
        .await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        self.in_own_task(Kind::Unknown, move |store| async move {
            purge::purge(&store, what, limit).await
        })
        .await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.in_own_task(Kind::Unavailable, |store| async move {
            recount::recount(&store).await
        })
        .await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unknown, |store| async move {
            recount::repair(&store, &name).await
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> WaitingList for Sql<D> {
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        let (waiting, gone) = (waiting.to_vec(), gone.to_vec());
        self.in_own_task(Kind::Unavailable, move |store| async move {
            waiting_list::show(&store, process, &waiting, &gone).await
        })
        .await
    }

    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            waiting_list::shown(&store, &name).await
        })
        .await
    }

    async fn shown_at(&self, names: &[SemaphoreName]) -> Result<ShownAt, Error> {
        let names = names.to_vec();
        self.in_own_task(Kind::Unavailable, |store| async move {
            waiting_list::shown_at(&store, &names).await
        })
        .await
    }

    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        self.in_own_task(Kind::Unavailable, move |store| async move {
            waiting_list::forget(&store, age, limit).await
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> Tokens for Sql<D> {
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            tokens::tokens(&store, &page).await
        })
        .await
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        let token = token.clone();
        self.in_own_task(Kind::Unknown, move |store| async move {
            tokens::add(&store, &token).await
        })
        .await
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unknown, move |store| async move {
            tokens::revoke(&store, &name).await
        })
        .await
    }

    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        let owners = owners.to_vec();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            tokens::owners_in_use(&store, &owners).await
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> Notification for Sql<D> {
    async fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> BTreeSet<SemaphoreName> {
        D::changed(&self.0.notifier, on, process).await
    }
}

#[async_trait]
impl<D: Dialect> Migration for Sql<D> {
    async fn migrate(&self) -> Result<(), Error> {
        self.in_own_task(Kind::Unavailable, |store| async move {
            schema::migrate(&store).await
        })
        .await
    }
}
