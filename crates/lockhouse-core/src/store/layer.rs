//! Decorators: a layer wraps a store and counts, delays, refuses or changes some of its calls.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Batch, Connections, Cursor, Due, Error, FullStore, Held, Holders, Listing, Maintenance,
    Migration, NewToken, Notification, Page, Purge, Shown, ShownAt, ShownWaiter, Stale, Store,
    Templates, TokenList, Tokens, WaitingList,
};
use crate::{
    CapacityChange, ExternalId, Footprint, NamePrefix, Outcome, Owner, Pattern, ProcessId, Recount,
    Request, SemaphoreName, SemaphoreRow, Template, TemplateDefinition, Timestamp, Token,
    TokenName,
};

/// A call to a store, other than [`Store::transact`], [`Store::connections`] and [`Notification::changed`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call<'a> {
    /// [`Store::locked`].
    Locked,
    /// [`Store::semaphore`].
    Semaphore,
    /// [`Store::named`].
    Named,
    /// [`Store::request`].
    Request,
    /// [`Store::ready`].
    Ready,
    /// [`Templates::define_template`].
    DefineTemplate,
    /// [`Templates::delete_template`].
    DeleteTemplate,
    /// [`Templates::templates`].
    Templates,
    /// [`Templates::to_follow`].
    ToFollow,
    /// [`Listing::semaphores`].
    Semaphores,
    /// [`Listing::semaphores_ever`].
    SemaphoresEver,
    /// [`Listing::holders`].
    Holders,
    /// [`Listing::history`].
    History,
    /// [`Maintenance::due`].
    Due,
    /// [`Maintenance::stale`].
    Stale,
    /// [`Maintenance::owners`].
    Owners(&'a Page<Owner>),
    /// [`Maintenance::purge`].
    Purge,
    /// [`Maintenance::recount`].
    Recount,
    /// [`Maintenance::repair`].
    Repair,
    /// [`WaitingList::show`].
    Show,
    /// [`WaitingList::shown`].
    Shown,
    /// [`WaitingList::shown_at`].
    ShownAt,
    /// [`WaitingList::forget_shown`].
    ForgetShown,
    /// [`Tokens::tokens`].
    Tokens,
    /// [`Tokens::add_token`].
    AddToken,
    /// [`Tokens::revoke_token`].
    RevokeToken,
    /// [`Tokens::owners_in_use`].
    OwnersInUse,
    /// [`Migration::migrate`].
    Migrate,
}

impl Call<'_> {
    /// The name of the method.
    pub const fn name(&self) -> &'static str {
        match self {
            Call::Locked => "locked",
            Call::Semaphore => "semaphore",
            Call::Named => "named",
            Call::Request => "request",
            Call::Ready => "ready",
            Call::DefineTemplate => "define_template",
            Call::DeleteTemplate => "delete_template",
            Call::Templates => "templates",
            Call::ToFollow => "to_follow",
            Call::Semaphores => "semaphores",
            Call::SemaphoresEver => "semaphores_ever",
            Call::Holders => "holders",
            Call::History => "history",
            Call::Due => "due",
            Call::Stale => "stale",
            Call::Owners(_) => "owners",
            Call::Purge => "purge",
            Call::Recount => "recount",
            Call::Repair => "repair",
            Call::Show => "show",
            Call::Shown => "shown",
            Call::ShownAt => "shown_at",
            Call::ForgetShown => "forget_shown",
            Call::Tokens => "tokens",
            Call::AddToken => "add_token",
            Call::RevokeToken => "revoke_token",
            Call::OwnersInUse => "owners_in_use",
            Call::Migrate => "migrate",
        }
    }
}

/// A decorator of a store. A type that implements it is a [`FullStore`]. It passes each call on to
/// [`inner`](Layer::inner) unless it overrides that call.
///
/// A layer that observes, delays or fails calls implements [`around`](Layer::around). A layer that
/// changes the arguments or the answer of a call implements the method of that call.
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// The store that calls are passed on to.
    fn inner(&self) -> &dyn FullStore;

    /// Wraps each call except `transact` and `changed`. `answer` is the future of the call, not yet
    /// polled.
    fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        let _ = call;
        answer
    }

    /// Instead of [`Store::transact`].
    fn transact(&self, batch: &Batch) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send {
        async move { self.inner().transact(batch).await }
    }

    /// Instead of [`Notification::changed`].
    fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> impl Future<Output = BTreeSet<SemaphoreName>> + Send {
        async move { self.inner().changed(on, process).await }
    }

    /// Instead of [`Store::locked`], within [`around`](Layer::around).
    fn locked(&self, rows: &Footprint) -> impl Future<Output = Result<Footprint, Error>> + Send {
        async move { self.inner().locked(rows).await }
    }

    /// Instead of [`Store::semaphore`], within [`around`](Layer::around).
    fn semaphore(
        &self,
        name: &SemaphoreName,
    ) -> impl Future<Output = Result<Option<SemaphoreRow>, Error>> + Send {
        async move { self.inner().semaphore(name).await }
    }

    /// Instead of [`Store::named`], within [`around`](Layer::around).
    fn named(
        &self,
        names: &[SemaphoreName],
    ) -> impl Future<Output = Result<Vec<SemaphoreRow>, Error>> + Send {
        async move { self.inner().named(names).await }
    }

    /// Instead of [`Templates::define_template`], within [`around`](Layer::around).
    fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> impl Future<Output = Result<(Template, bool), Error>> + Send {
        async move { self.inner().define_template(definition).await }
    }

    /// Instead of [`Templates::delete_template`], within [`around`](Layer::around).
    fn delete_template(
        &self,
        pattern: &Pattern,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        async move { self.inner().delete_template(pattern).await }
    }

    /// Instead of [`Templates::to_follow`], within [`around`](Layer::around).
    fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<SemaphoreName>, Error>> + Send {
        async move { self.inner().to_follow(template, limit).await }
    }

    /// Instead of [`Maintenance::due`], within [`around`](Layer::around).
    fn due(
        &self,
        which: Due<'_>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Request>, Error>> + Send {
        async move { self.inner().due(which, limit).await }
    }

    /// Instead of [`Maintenance::purge`], within [`around`](Layer::around).
    fn purge(&self, what: Purge, limit: u32) -> impl Future<Output = Result<u64, Error>> + Send {
        async move { self.inner().purge(what, limit).await }
    }
}

#[async_trait]
impl<L: Layer> Store for L {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        Layer::transact(self, batch).await
    }

    fn max_batch(&self) -> usize {
        self.inner().max_batch()
    }

    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error> {
        self.around(Call::Locked, Layer::locked(self, rows)).await
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        self.around(Call::Semaphore, Layer::semaphore(self, name))
            .await
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        self.around(Call::Named, Layer::named(self, names)).await
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        self.around(Call::Request, self.inner().request(external_id))
            .await
    }

    async fn ready(&self) -> Result<(), Error> {
        self.around(Call::Ready, self.inner().ready()).await
    }

    fn connections(&self) -> Connections {
        self.inner().connections()
    }
}

#[async_trait]
impl<L: Layer> Templates for L {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        let define = Layer::define_template(self, definition);
        self.around(Call::DefineTemplate, define).await
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let delete = Layer::delete_template(self, pattern);
        self.around(Call::DeleteTemplate, delete).await
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        self.around(Call::Templates, self.inner().templates(page))
            .await
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let find = Layer::to_follow(self, template, limit);
        self.around(Call::ToFollow, find).await
    }
}

#[async_trait]
impl<L: Layer> Listing for L {
    async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        self.around(Call::Semaphores, self.inner().semaphores(prefix, page))
            .await
    }

    async fn semaphores_ever(
        &self,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreRow>, Error> {
        self.around(Call::SemaphoresEver, self.inner().semaphores_ever(page))
            .await
    }

    async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        self.around(Call::Holders, self.inner().holders(of, page))
            .await
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        self.around(Call::History, self.inner().history(name, limit))
            .await
    }
}

#[async_trait]
impl<L: Layer> Maintenance for L {
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        self.around(Call::Due, Layer::due(self, which, limit)).await
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        self.around(Call::Stale, self.inner().stale(age, page))
            .await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        self.around(Call::Owners(page), self.inner().owners(page))
            .await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        self.around(Call::Purge, Layer::purge(self, what, limit))
            .await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.around(Call::Recount, self.inner().recount()).await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        self.around(Call::Repair, self.inner().repair(name)).await
    }
}

#[async_trait]
impl<L: Layer> WaitingList for L {
    async fn show(
        &self,
        process: ProcessId,
        waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
        gone: &[SemaphoreName],
    ) -> Result<(), Error> {
        self.around(Call::Show, self.inner().show(process, waiting, gone))
            .await
    }

    async fn shown(&self, name: &SemaphoreName) -> Result<Shown, Error> {
        self.around(Call::Shown, self.inner().shown(name)).await
    }

    async fn shown_at(&self, names: &[SemaphoreName]) -> Result<ShownAt, Error> {
        self.around(Call::ShownAt, self.inner().shown_at(names))
            .await
    }

    async fn forget_shown(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        self.around(Call::ForgetShown, self.inner().forget_shown(age, limit))
            .await
    }
}

#[async_trait]
impl<L: Layer> Tokens for L {
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        self.around(Call::Tokens, self.inner().tokens(page)).await
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        self.around(Call::AddToken, self.inner().add_token(token))
            .await
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        self.around(Call::RevokeToken, self.inner().revoke_token(name))
            .await
    }

    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        self.around(Call::OwnersInUse, self.inner().owners_in_use(owners))
            .await
    }
}

#[async_trait]
impl<L: Layer> Notification for L {
    async fn changed(
        &self,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> BTreeSet<SemaphoreName> {
        Layer::changed(self, on, process).await
    }
}

#[async_trait]
impl<L: Layer> Migration for L {
    async fn migrate(&self) -> Result<(), Error> {
        self.around(Call::Migrate, self.inner().migrate()).await
    }
}
