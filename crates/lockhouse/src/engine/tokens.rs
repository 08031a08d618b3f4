//! Access tokens in the store.

use lockhouse_core::store::TokenList;
use lockhouse_core::{Owner, Refusal, Timestamp, Token, TokenGrant, TokenName};

use super::{Engine, retry};
use crate::access::{draw, no_such_token};
use crate::{Error, Secret};

impl Engine {
    pub(crate) async fn create_token(
        &self,
        name: TokenName,
        grants: &[TokenGrant],
        expires_at: Option<Timestamp>,
    ) -> Result<(Token, Secret), Error> {
        let (token, secret) = draw(name.clone(), grants, expires_at)?;
        let deadline = retry::deadline();
        // The retry is safe: the same digest is the same token.
        let made = retry::read(&self.shared.retries, deadline, || {
            self.store.add_token(&token)
        })
        .await?;
        let made = made.ok_or(Refusal::TokenExists(name))?;
        Ok((made, secret))
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let list = self.token_list().await?;
        Ok(list.tokens.into_iter().map(|(_, token)| token).collect())
    }

    pub(crate) async fn token_list(&self) -> Result<TokenList, Error> {
        retry::read(&self.shared.retries, retry::deadline(), || {
            self.store.tokens()
        })
        .await
    }

    pub(crate) async fn revoke_token(&self, name: &TokenName) -> Result<(), Error> {
        let deadline = retry::deadline();
        let revoked = retry::read(&self.shared.retries, deadline, || {
            self.store.revoke_token(name)
        })
        .await?;
        revoked.map(drop).ok_or_else(|| no_such_token(name))
    }

    pub(crate) async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        retry::read(&self.shared.retries, retry::deadline(), || {
            self.store.owners_in_use(owners)
        })
        .await
    }
}
