//! The two ways to do a call: an [`Engine`] in this process, or a server.

#[cfg(feature = "remote")]
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Cursor, Held, Holders, Page, Waiter};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Command, Definition, ExternalId, NamePrefix, Owner, Pattern, Reply,
    Request, SemaphoreName, Template, TemplateDefinition, Timestamp, Token, TokenGrant, TokenName,
    Ttl,
};

use crate::engine::Engine;
use crate::error::unexpected;
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::{Error, Heard, Released, Secret, SemaphoreStatus};

/// Executes the calls of a [`Lockhouse`](crate::Lockhouse).
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    /// An engine in this process, on a store.
    Engine(Engine),
    /// A server, over HTTP.
    #[cfg(feature = "remote")]
    Remote(Arc<Remote>),
}

/// Forwards a call to the engine or to the server.
macro_rules! forward {
    ($backend:expr, $call:ident($($argument:expr),*)) => {
        match $backend {
            Backend::Engine(engine) => engine.$call($($argument),*).await,
            #[cfg(feature = "remote")]
            Backend::Remote(remote) => remote.$call($($argument),*).await,
        }
    };
}

impl Backend {
    /// Acquires what `ask` names. If there is no room, it waits its turn for at most `wait`.
    ///
    /// Dropping the future takes the ask out of the queue; an ask that a lane has taken goes on.
    pub(crate) async fn acquire(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        forward!(self, acquire(ask, wait))
    }

    /// Executes a command that never waits for room.
    ///
    /// Dropping the future takes the command out of the queue; a command that a lane has taken goes on.
    pub(crate) async fn execute(&self, command: Command) -> Result<Reply, Error> {
        forward!(self, execute(command))
    }

    /// Renews a request. If `by` belongs to a token, so must the request.
    pub(crate) async fn renew(
        &self,
        external_id: ExternalId,
        ttl: Option<Ttl>,
        by: Option<Owner>,
    ) -> Result<Request, Error> {
        let renew = Command::Renew {
            external_id,
            ttl,
            by,
        };
        match self.execute(renew).await? {
            Reply::Renewed(request) => Ok(request),
            other => Err(unexpected(&other)),
        }
    }

    /// Releases a request. If `by` belongs to a token, so must the request.
    pub(crate) async fn release(
        &self,
        external_id: ExternalId,
        by: Option<Owner>,
    ) -> Result<Released, Error> {
        let cause = Cause::Released { by };
        let release = Command::End { external_id, cause };
        Released::of(self.execute(release).await?)
    }

    /// Keeps the session of `owner`. Begins it if there is none, unless it `must_exist`.
    pub(crate) async fn heartbeat(
        &self,
        owner: Owner,
        ttl: Ttl,
        must_exist: bool,
    ) -> Result<Heard, Error> {
        let heartbeat = Command::Heartbeat {
            owner,
            ttl,
            must_exist,
        };
        match self.execute(heartbeat).await? {
            Reply::Heard { session, began } => Ok(Heard { session, began }),
            other => Err(unexpected(&other)),
        }
    }

    /// Defines a semaphore; also says whether it was created.
    pub(crate) async fn define(
        &self,
        definition: Definition,
    ) -> Result<(SemaphoreStatus, bool), Error> {
        forward!(self, define(definition))
    }

    /// Creates or changes a template; also says whether it was created.
    pub(crate) async fn define_template(
        &self,
        definition: TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        forward!(self, define_template(definition))
    }

    /// Deletes a template. Returns whether there was one.
    pub(crate) async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        forward!(self, delete_template(pattern))
    }

    pub(crate) async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        forward!(self, templates(page))
    }

    /// Ends all requests of `owner`, and its session. Returns how many requests it ended.
    pub(crate) async fn goodbye(&self, owner: &Owner) -> Result<u64, Error> {
        forward!(self, goodbye(owner))
    }

    pub(crate) async fn semaphore(&self, name: &SemaphoreName) -> Result<SemaphoreStatus, Error> {
        forward!(self, semaphore(name))
    }

    pub(crate) async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        forward!(self, semaphores(prefix, page))
    }

    pub(crate) async fn request(&self, external_id: &ExternalId) -> Result<Request, Error> {
        forward!(self, request(external_id))
    }

    pub(crate) async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        forward!(self, holders(of, page))
    }

    pub(crate) async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        forward!(self, history(name, limit))
    }

    /// The waiters of all processes, in order.
    pub(crate) async fn waiting(&self, name: &SemaphoreName) -> Result<Vec<Waiter>, Error> {
        forward!(self, waiting(name))
    }

    pub(crate) async fn create_token(
        &self,
        name: TokenName,
        grants: &[TokenGrant],
        expires_at: Option<Timestamp>,
    ) -> Result<(Token, Secret), Error> {
        forward!(self, create_token(name, grants, expires_at))
    }

    pub(crate) async fn tokens(&self, page: &Page<TokenName>) -> Result<Vec<Token>, Error> {
        forward!(self, tokens(page))
    }

    pub(crate) async fn revoke_token(&self, name: &TokenName) -> Result<(), Error> {
        forward!(self, revoke_token(name))
    }

    /// Brings the schema up to date. A server does so itself when it starts.
    pub(crate) async fn migrate(&self) -> Result<(), Error> {
        match self {
            Backend::Engine(engine) => engine.migrate().await,
            #[cfg(feature = "remote")]
            Backend::Remote(remote) => remote.ready().await,
        }
    }

    pub(crate) async fn ready(&self) -> Result<(), Error> {
        forward!(self, ready())
    }

    /// Waits briefly until other processes know that waiters of this process have left. A client of
    /// a server has nothing to wait for, since the server stands in the line.
    pub(crate) async fn leave_lines(&self) {
        if let Some(engine) = self.engine() {
            engine.leave_lines().await;
        }
    }

    /// Has the waiters of this process keep their places when they ask again at another. A client of
    /// a server has none.
    pub(crate) async fn hand_over_waiters(&self) {
        if let Some(engine) = self.engine() {
            engine.hand_over_waiters().await;
        }
    }

    /// The engine in this process, if there is one. Only an engine does upkeep.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        match self {
            Backend::Engine(engine) => Some(engine),
            #[cfg(feature = "remote")]
            Backend::Remote(_) => None,
        }
    }
}
