//! The tokens for servers that stand before the store.

use std::fmt;

use async_trait::async_trait;

use super::Error;
use crate::{Digest, Owner, Timestamp, Token, TokenGrant, TokenName};

/// The most tokens that a store lists.
pub const MAX_TOKENS: u32 = 10_000;

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name.
    pub name: TokenName,
    /// Of its secret.
    pub digest: Digest,
    /// What it may do.
    pub grants: Vec<TokenGrant>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// The token as it is when it was made at `now`.
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

/// All tokens at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenList {
    /// The store's clock.
    pub now: Timestamp,
    /// The tokens, each with the digest of its secret, in byte order of their names, at most [`MAX_TOKENS`]. Expired
    /// and revoked ones are among them.
    pub tokens: Vec<(Digest, Token)>,
}

/// Keeps access tokens, without their secrets.
///
/// # Contract
/// - Names are unique. A token stays listed when it has expired or was revoked, until another of its name is made.
/// - Times are the store's.
/// - Each call is safe to repeat, and ends within 10 s.
#[async_trait]
pub trait Tokens: fmt::Debug + Send + Sync + 'static {
    /// All tokens.
    async fn tokens(&self) -> Result<TokenList, Error>;

    /// Makes a token, in the place of one with its name that has expired or was revoked. None if a good token has
    /// that name and another digest.
    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error>;

    /// Revokes the token called `name`. None if there is no such token; one that was revoked before stays as it is.
    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error>;

    /// Those of `owners` that have a session or hold a live request.
    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error>;
}
