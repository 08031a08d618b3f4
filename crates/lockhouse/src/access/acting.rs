//! Calls in the name of a token's owner, which a server makes for its callers.

use lockhouse_core::{ExternalId, Owner, Request, Ttl};

use crate::{Error, Heard, Lockhouse, Released};

/// [`renew`](Lockhouse::renew) in the name of `by`. If `by` belongs to a token, it renews only
/// requests of the same token. Without `by`, or if `by` belongs to no token, it renews any request: check
/// [`Force`](super::Verb::Force) on each of its semaphores first.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # use std::time::Duration;
/// # use lockhouse::{Ask, Count, ExternalId, SemaphoreName, Ttl};
/// use lockhouse::{Owner, TokenName, access};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// # lockhouse.define("backup-slots", 10).await?;
/// # let permits = [(SemaphoreName::parse("backup-slots")?, Count::new(1)?)];
/// # let mut ask = Ask::new(ExternalId::parse("job-abc-123")?, permits)?;
/// # ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
/// let ci = Owner::of_token(&TokenName::parse("ci")?, None)?;
/// ask.owner = Some(ci.clone());
/// let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await?;
/// access::renew_as(&lockhouse, request.external_id.clone(), None, Some(ci)).await?;
///
/// let web = Owner::of_token(&TokenName::parse("web")?, None)?;
/// let refused = access::renew_as(&lockhouse, request.external_id, None, Some(web)).await;
/// assert!(refused.is_err());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`OfAnotherToken`](crate::Refusal::OfAnotherToken) if another token made the request;
/// [`UnknownRequest`](crate::Refusal::UnknownRequest),
/// [`RequestEnded`](crate::Refusal::RequestEnded), [`Error::Store`];
/// [`NoTtl`](crate::Refusal::NoTtl) if neither the call nor the request has a TTL.
pub async fn renew_as(
    lockhouse: &Lockhouse,
    external_id: ExternalId,
    ttl: Option<Ttl>,
    by: Option<Owner>,
) -> Result<Request, Error> {
    lockhouse.backend().renew(external_id, ttl, by).await
}

/// [`release_by`](Lockhouse::release_by) in the name of `by`. If `by` belongs to a token, it
/// releases only requests of the same token. Without `by`, or if `by` belongs to no token, it releases any request: check
/// [`Force`](super::Verb::Force) on each of its semaphores first.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # use std::time::Duration;
/// # use lockhouse::{Ask, Count, ExternalId, SemaphoreName, Ttl};
/// use lockhouse::{Owner, TokenName, access};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// # lockhouse.define("backup-slots", 10).await?;
/// # let permits = [(SemaphoreName::parse("backup-slots")?, Count::new(1)?)];
/// # let mut ask = Ask::new(ExternalId::parse("job-abc-123")?, permits)?;
/// # ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
/// let ci = Owner::of_token(&TokenName::parse("ci")?, None)?;
/// ask.owner = Some(ci.clone());
/// let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await?;
/// let released = access::release_as(&lockhouse, request.external_id, Some(ci)).await?;
/// assert!(released.now);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`OfAnotherToken`](crate::Refusal::OfAnotherToken) if another token made the request;
/// [`UnknownRequest`](crate::Refusal::UnknownRequest), [`Error::Store`].
pub async fn release_as(
    lockhouse: &Lockhouse,
    external_id: ExternalId,
    by: Option<Owner>,
) -> Result<Released, Error> {
    lockhouse.backend().release(external_id, by).await
}

/// [`heartbeat`](Lockhouse::heartbeat) of an owner that may belong to a token. If the session `must_exist`, it is
/// [`renew_session`](Lockhouse::renew_session).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use std::time::Duration;
///
/// use lockhouse::{Owner, TokenName, Ttl, access};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let owner = Owner::of_token(&TokenName::parse("ci")?, Some(&"job-7".parse()?))?;
/// let ttl = Ttl::new(Duration::from_secs(30))?;
/// assert!(access::heartbeat_as(&lockhouse, owner.clone(), ttl, false).await?.began);
/// assert!(!access::heartbeat_as(&lockhouse, owner, ttl, true).await?.began);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`SessionEnded`](crate::Refusal::SessionEnded) if the session must exist and does not;
/// [`Error::Store`].
pub async fn heartbeat_as(
    lockhouse: &Lockhouse,
    owner: Owner,
    ttl: Ttl,
    must_exist: bool,
) -> Result<Heard, Error> {
    let backend = lockhouse.backend();
    backend.heartbeat(owner, ttl, must_exist).await
}

/// [`goodbye`](Lockhouse::goodbye) of an owner that may belong to a token.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # use std::time::Duration;
/// use lockhouse::{Owner, TokenName, access};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let owner = Owner::of_token(&TokenName::parse("ci")?, Some(&"job-7".parse()?))?;
/// # access::heartbeat_as(&lockhouse, owner.clone(), lockhouse::Ttl::new(Duration::from_secs(30))?, false).await?;
/// let released = access::goodbye_as(&lockhouse, &owner).await?;
/// println!("{released} requests released");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Store`].
pub async fn goodbye_as(lockhouse: &Lockhouse, owner: &Owner) -> Result<u64, Error> {
    lockhouse.backend().goodbye(owner).await
}

/// The owners among `owners` that have a session or hold a live request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use std::time::Duration;
///
/// use lockhouse::{Owner, access};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let owners: [Owner; 2] = ["job-7".parse()?, "job-8".parse()?];
/// lockhouse.heartbeat("job-7", Duration::from_secs(30)).await?;
/// assert_eq!(access::owners_in_use(&lockhouse, &owners).await?, owners[..1]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Store`]; [`Error::Invalid`] on a server's URL.
pub async fn owners_in_use(lockhouse: &Lockhouse, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
    lockhouse.upkeeper()?.owners_in_use(owners).await
}
