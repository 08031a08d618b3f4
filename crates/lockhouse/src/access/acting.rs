//! Calls in the name of a token's owner, which a server makes for its callers.

use lockhouse_core::{Cause, Command, ExternalId, Owner, Reply, Request, Ttl};

use crate::error::unexpected;
use crate::{Error, Heard, Lockhouse, Released};

impl Lockhouse {
    /// [`renew`](Lockhouse::renew) in the name of `by`. If `by` belongs to a token, it renews only
    /// requests of the same token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # use std::time::Duration;
    /// # use lockhouse::{Ask, Count, ExternalId, SemaphoreName, Ttl};
    /// use lockhouse::{Owner, TokenName};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// # let permits = [(SemaphoreName::parse("backup-slots")?, Count::new(1)?)];
    /// # let mut ask = Ask::new(ExternalId::parse("job-abc-123")?, permits)?;
    /// # ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
    /// let ci = Owner::of_token(&TokenName::parse("ci")?, None)?;
    /// ask.owner = Some(ci.clone());
    /// let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await?;
    /// lockhouse.renew_as(request.external_id.clone(), None, Some(ci)).await?;
    ///
    /// let web = Owner::of_token(&TokenName::parse("web")?, None)?;
    /// let refused = lockhouse.renew_as(request.external_id, None, Some(web)).await;
    /// assert!(refused.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OfAnotherToken`](crate::Refusal::OfAnotherToken) if another token made the request;
    /// [`UnknownRequest`](crate::Refusal::UnknownRequest),
    /// [`RequestEnded`](crate::Refusal::RequestEnded), [`Error::Store`];
    /// [`NoTtl`](crate::Refusal::NoTtl) if neither TTL is there.
    pub async fn renew_as(
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
        match self.backend().execute(renew).await? {
            Reply::Renewed(request) => Ok(request),
            other => Err(unexpected(&other)),
        }
    }

    /// [`release_by`](Lockhouse::release_by) in the name of `by`. If `by` belongs to a token, it
    /// releases only requests of the same token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # use std::time::Duration;
    /// # use lockhouse::{Ask, Count, ExternalId, SemaphoreName, Ttl};
    /// use lockhouse::{Owner, TokenName};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// # let permits = [(SemaphoreName::parse("backup-slots")?, Count::new(1)?)];
    /// # let mut ask = Ask::new(ExternalId::parse("job-abc-123")?, permits)?;
    /// # ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
    /// let ci = Owner::of_token(&TokenName::parse("ci")?, None)?;
    /// ask.owner = Some(ci.clone());
    /// let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await?;
    /// let released = lockhouse.release_as(request.external_id, Some(ci)).await?;
    /// assert!(released.now);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OfAnotherToken`](crate::Refusal::OfAnotherToken) if another token made the request;
    /// [`UnknownRequest`](crate::Refusal::UnknownRequest), [`Error::Store`].
    pub async fn release_as(
        &self,
        external_id: ExternalId,
        by: Option<Owner>,
    ) -> Result<Released, Error> {
        let cause = Cause::Released { by };
        let release = Command::End { external_id, cause };
        Released::of(self.backend().execute(release).await?)
    }

    /// [`heartbeat`](Lockhouse::heartbeat) or, if it `must_exist`,
    /// [`renew_session`](Lockhouse::renew_session) of an owner that may belong to a token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use std::time::Duration;
    ///
    /// use lockhouse::{Owner, TokenName, Ttl};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let owner = Owner::of_token(&TokenName::parse("ci")?, Some(&"job-7".parse()?))?;
    /// let ttl = Ttl::new(Duration::from_secs(30))?;
    /// assert!(lockhouse.heartbeat_as(owner.clone(), ttl, false).await?.began);
    /// assert!(!lockhouse.heartbeat_as(owner, ttl, true).await?.began);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Refusal::SessionEnded) if the session must exist and does not;
    /// [`Error::Store`].
    pub async fn heartbeat_as(
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
        match self.backend().execute(heartbeat).await? {
            Reply::Heard { session, began } => Ok(Heard { session, began }),
            other => Err(unexpected(&other)),
        }
    }

    /// [`goodbye`](Lockhouse::goodbye) of an owner that may belong to a token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # use std::time::Duration;
    /// use lockhouse::{Owner, TokenName};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let owner = Owner::of_token(&TokenName::parse("ci")?, Some(&"job-7".parse()?))?;
    /// # lockhouse.heartbeat_as(owner.clone(), lockhouse::Ttl::new(Duration::from_secs(30))?, false).await?;
    /// let released = lockhouse.goodbye_as(&owner).await?;
    /// println!("{released} requests released");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn goodbye_as(&self, owner: &Owner) -> Result<u64, Error> {
        self.backend().goodbye(owner).await
    }

    /// The owners among `owners` that have a session or hold a live request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use std::time::Duration;
    ///
    /// use lockhouse::Owner;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let owners: [Owner; 2] = ["job-7".parse()?, "job-8".parse()?];
    /// lockhouse.heartbeat("job-7", Duration::from_secs(30)).await?;
    /// assert_eq!(lockhouse.owners_in_use(&owners).await?, owners[..1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Invalid`] on a server's URL.
    pub async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        self.upkeeper()?.owners_in_use(owners).await
    }
}
