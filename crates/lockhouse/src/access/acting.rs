//! Calls in the name of a token's owner, as a server makes them for its callers.

use std::time::Duration;

use lockhouse_core::{Cause, Command, ExternalId, Owner, Reply, Request, Ttl};

use crate::error::unexpected;
use crate::{Error, Heard, Lockhouse, Released};

impl Lockhouse {
    /// [`renew`](Lockhouse::renew) in the name of `by`. If that is a token's, only what the same token made is renewed.
    ///
    /// # Errors
    /// `forbidden` when another token made it; `unknown_request`, `request_ended`, `store_unavailable`;
    /// `invalid_request` without a TTL.
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
        match self.backend().execute(renew, Duration::ZERO).await? {
            Reply::Renewed(request) => Ok(request),
            other => Err(unexpected(&other)),
        }
    }

    /// [`release_by`](Lockhouse::release_by) in the name of `by`. If that is a token's, only what the same token made is
    /// released.
    ///
    /// # Errors
    /// `forbidden` when another token made it; `unknown_request`, `store_unavailable`.
    pub async fn release_as(
        &self,
        external_id: ExternalId,
        by: Option<Owner>,
    ) -> Result<Released, Error> {
        let cause = Cause::Released { by };
        let release = Command::End { external_id, cause };
        Released::of(self.backend().execute(release, Duration::ZERO).await?)
    }

    /// [`heartbeat`](Lockhouse::heartbeat) or [`renew_session`](Lockhouse::renew_session) of an owner that may be a
    /// token's.
    ///
    /// # Errors
    /// `session_ended` if it must exist and does not; `store_unavailable`.
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
        match self.backend().execute(heartbeat, Duration::ZERO).await? {
            Reply::Heard { session, began } => Ok(Heard { session, began }),
            other => Err(unexpected(&other)),
        }
    }

    /// [`goodbye`](Lockhouse::goodbye) of an owner that may be a token's.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn goodbye_as(&self, owner: &Owner) -> Result<u64, Error> {
        self.backend().goodbye(owner).await
    }

    /// Those of `owners` that have a session or hold a live request.
    ///
    /// # Errors
    /// `store_unavailable`; `invalid_request` on a server's URL.
    pub async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        self.upkeeper()?.owners_in_use(owners).await
    }
}
