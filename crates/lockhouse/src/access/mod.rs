//! For a server that checks the access tokens of its callers, as `lockhouse serve` does. Other programs need only
//! [`create_token`](Lockhouse::create_token), [`tokens`](Lockhouse::tokens) and [`revoke_token`](Lockhouse::revoke_token).
//!
//! A [`Token`] has [grants](TokenGrant): each is a [`Verb`] and the names that it covers. The server finds the token of a
//! call among [`known_tokens`], by the [`Digest`] of the secret that the caller sends. It checks the grants, and does the
//! call in the token's name:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! use std::time::Duration;
//!
//! use lockhouse::access::{self, Verb};
//! use lockhouse::{Ask, Count, ExternalId, Owner, SemaphoreName, Ttl};
//!
//! # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
//! # lockhouse.define("gpu", 4).await?;
//! # let (_, secret) = lockhouse.create_token("ci", &["hold:*".parse()?], None).await?;
//! // The caller sent `Authorization: Bearer …`; `secret` is its text, parsed by `parse::<Secret>()`.
//! let known = access::known_tokens(&lockhouse).await?;
//! let mut tokens = known.tokens.iter();
//! let of_secret = tokens.find(|(digest, _)| secret.is_of(digest));
//! let Some((_, token)) = of_secret.filter(|(_, token)| token.is_good(known.now)) else {
//!     return Ok(()); // 401
//! };
//! if !token.may(Verb::Hold, "gpu") {
//!     return Ok(()); // 403
//! }
//! let own = Owner::of_token(&token.name, None)?;
//! let permits = [(SemaphoreName::parse("gpu")?, Count::new(1)?)];
//! let mut ask = Ask::new(ExternalId::parse("job-abc-123")?, permits)?;
//! ask.owner = Some(own.clone());
//! ask.ttl = Some(Ttl::new(Duration::from_secs(60))?);
//! let (request, _) = lockhouse.acquire(ask, Duration::ZERO).await?;
//! access::release_as(&lockhouse, request.external_id, Some(own)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A server refuses a revoked token within 10 s, so it reads the tokens at least that often, and keeps them meanwhile.
//! `lockhouse_server::router` is such a server, as a service to mount in another.
//!
//! The owner of a request has the name of the token that made it: [`of_token`](crate::Owner::of_token) makes such an owner. A
//! listing shows a caller only the names that the grants [cover](Covered).

mod acting;
pub(crate) mod options;
pub(crate) mod secret;

use lockhouse_core::store::{NewToken, TokenList};
use lockhouse_core::{Invalid, MAX_TOKEN_GRANTS, Timestamp, Token, TokenGrant, TokenName};
use lockhouse_wire as wire;

use crate::client::page;
use crate::{Error, Lockhouse};
pub use acting::{goodbye_as, heartbeat_as, owners_in_use, release_as, renew_as};
pub use lockhouse_core::{Covered, Digest, Verb};
use secret::Secret;

impl Lockhouse {
    /// Creates the access token `name`, valid until `expires_at` or until it is
    /// [revoked](Lockhouse::revoke_token). Returns the token and its secret. The secret cannot be
    /// read again: the store keeps only its SHA-256.
    ///
    /// It replaces a token of the same name that has expired or was revoked, and takes over that
    /// token's requests and owners.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use std::time::Duration;
    ///
    /// use lockhouse::Timestamp;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let grants = ["hold:customer/*".parse()?, "read:*".parse()?];
    /// let in_an_hour = Timestamp::now() + Duration::from_secs(60 * 60);
    /// let (token, secret) = lockhouse.create_token("ci", &grants, Some(in_an_hour)).await?;
    /// assert_eq!(token.name.as_str(), "ci");
    /// assert!(secret.reveal().starts_with("lh_"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`TokenExists`](crate::Refusal::TokenExists) if a valid token has that
    /// name; [`Error::Store`]; [`Error::Denied`] if a server refuses a caller without `admin:*`.
    pub async fn create_token(
        &self,
        name: impl AsRef<str>,
        grants: &[TokenGrant],
        expires_at: Option<Timestamp>,
    ) -> Result<(Token, Secret), Error> {
        let name = TokenName::parse(name)?;
        if !(1..=MAX_TOKEN_GRANTS).contains(&grants.len()) {
            let many = grants.len();
            let problem = format!("are {many}, a token takes 1 to {MAX_TOKEN_GRANTS}");
            return Err(Invalid::new("grants", problem).into());
        }
        if expires_at.is_some_and(|at| at <= Timestamp::now()) {
            return Err(Invalid::new("expires_at", "has passed already; give a later time").into());
        }
        self.backend().create_token(name, grants, expires_at).await
    }

    /// All tokens in the order of their names, including those that have expired or were revoked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.create_token("ci", &["read:*".parse()?], None).await?;
    /// for token in lockhouse.tokens().await? {
    ///     println!("{} may {}", token.name, token.grants_text());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Denied`] if a server refuses a caller without `admin:*`.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let mut tokens = self.tokens_after(None, wire::MAX_LIMIT).await?;
        let mut many = tokens.len();
        while many == wire::MAX_LIMIT as usize {
            let last = tokens.last().map(|token| &token.name);
            let piece = self.tokens_after(last, wire::MAX_LIMIT).await?;
            many = piece.len();
            tokens.extend(piece);
        }
        Ok(tokens)
    }

    /// A page of [`tokens`](Lockhouse::tokens): at most `limit` (1 to 1000), from the one after
    /// `after` on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.create_token("ci", &["read:*".parse()?], None).await?;
    /// assert_eq!(lockhouse.tokens_after(None, 100).await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`tokens`](Lockhouse::tokens); [`Error::Invalid`].
    pub async fn tokens_after(
        &self,
        after: Option<&TokenName>,
        limit: u32,
    ) -> Result<Vec<Token>, Error> {
        self.backend().tokens(&page(after, limit)?).await
    }

    /// Revokes the token `name`: all servers refuse it within 10 s. Its permits end with their TTL.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.create_token("ci", &["read:*".parse()?], None).await?;
    /// lockhouse.revoke_token("ci").await?;
    /// assert!(lockhouse.tokens().await?[0].revoked_at.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such token; [`Error::Store`]; [`Error::Denied`] if a
    /// server refuses a caller without `admin:*`.
    pub async fn revoke_token(&self, name: impl AsRef<str>) -> Result<(), Error> {
        self.backend().revoke_token(&TokenName::parse(name)?).await
    }
}

/// All tokens with the digests of their secrets, and the time of the store's clock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::Token;
/// use lockhouse::access::{self, Digest, Verb};
/// use lockhouse::store::TokenList;
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let (_, secret) = lockhouse.create_token("ci", &["read:*".parse()?], None).await?;
/// let TokenList { tokens, now } = access::known_tokens(&lockhouse).await?;
/// let (digest, token): &(Digest, Token) = &tokens[0];
/// assert!(secret.is_of(digest) && token.is_good(now));
/// assert!(token.may(Verb::Read, "gpu") && token.may_all(Verb::Read, "customer/"));
/// assert!(!token.may_any(Verb::Hold));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Store`]; [`Error::Invalid`] on a server's URL.
pub async fn known_tokens(lockhouse: &Lockhouse) -> Result<TokenList, Error> {
    lockhouse.upkeeper()?.token_list().await
}

/// The error of a token that does not exist.
pub(crate) fn no_such_token(name: &TokenName) -> Error {
    let problem = format!(
        "{:?} is not the name of a token; list the tokens to see their names",
        name.as_str()
    );
    Invalid::new("name", problem).into()
}

/// Draws a secret for a new token `name`.
pub(crate) fn draw(
    name: TokenName,
    grants: &[TokenGrant],
    expires_at: Option<Timestamp>,
) -> Result<(NewToken, Secret), Error> {
    let secret = Secret::random()?;
    let token = NewToken {
        name,
        digest: secret.digest(),
        grants: grants.to_vec(),
        expires_at,
    };
    Ok((token, secret))
}
