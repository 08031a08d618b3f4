//! The access tokens for servers in front of the store.

use std::fmt;

use async_trait::async_trait;

use super::{Error, Page};
use crate::{Digest, Owner, Timestamp, Token, TokenGrant, TokenName};

/// A token to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name.
    pub name: TokenName,
    /// The digest of its secret.
    pub digest: Digest,
    /// Its grants.
    pub grants: Vec<TokenGrant>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// The token that is created at `now`.
    pub fn made_at(&self, now: Timestamp) -> Token {
        Token {
            name: self.name.clone(),
            grants: self.grants.clone(),
            created_at: now,
            expires_at: self.expires_at,
            revoked_at: None,
        }
    }
}

/// A page of the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenList {
    /// The store's clock.
    pub now: Timestamp,
    /// The tokens, each with the digest of its secret, in byte order of their names. They include
    /// expired and revoked ones.
    pub tokens: Vec<(Digest, Token)>,
}

/// Keeps access tokens, without their secrets.
///
/// # Contract
/// - Names are unique. A token that has expired or was revoked stays listed until another token of
///   its name is created.
/// - Times are by the store's clock.
/// - Each call is safe to repeat, and ends within 10 s.
#[async_trait]
pub trait Tokens: fmt::Debug + Send + Sync + 'static {
    /// The tokens of `page`. If they are fewer than its limit, no more follow.
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error>;

    /// Creates a token. It replaces one of its name that has expired or was revoked. Returns `None`
    /// if a valid token has that name and another digest.
    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error>;

    /// Revokes the token `name`. Returns `None` if there is no such token. A token that was revoked
    /// before stays unchanged.
    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error>;

    /// The owners among `owners` that have a session or hold a live request.
    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error>;
}
