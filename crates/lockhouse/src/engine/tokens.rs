//! Access tokens in the store.

use lockhouse_core::store::{Page, TokenList};
use lockhouse_core::{Owner, Refusal, Timestamp, Token, TokenGrant, TokenName};

use super::{Engine, retry};
use crate::access::{draw, no_such_token};
use crate::{Error, Secret};

/// How many tokens are read at once.
const PIECE: u32 = 10_000;

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
        let (made, _) = self
            .retry
            .write(deadline, || self.store.add_token(&token))
            .await?;
        let made = made.ok_or(Refusal::TokenExists(name))?;
        Ok((made, secret))
    }

    pub(crate) async fn tokens(&self, page: &Page<TokenName>) -> Result<Vec<Token>, Error> {
        let list = self.token_page(page).await?;
        Ok(list.tokens.into_iter().map(|(_, token)| token).collect())
    }

    /// All tokens, and the store's time when the first of them were read.
    pub(crate) async fn token_list(&self) -> Result<TokenList, Error> {
        let mut page = Page {
            after: None,
            limit: PIECE,
        };
        let mut list = self.token_page(&page).await?;
        let mut many = list.tokens.len();
        while many == PIECE as usize {
            page.after = list.tokens.last().map(|(_, token)| token.name.clone());
            let piece = self.token_page(&page).await?.tokens;
            many = piece.len();
            list.tokens.extend(piece);
        }
        Ok(list)
    }

    async fn token_page(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        self.retry
            .read(retry::deadline(), || self.store.tokens(page))
            .await
    }

    pub(crate) async fn revoke_token(&self, name: &TokenName) -> Result<(), Error> {
        let deadline = retry::deadline();
        let (revoked, _) = self
            .retry
            .write(deadline, || self.store.revoke_token(name))
            .await?;
        revoked.map(drop).ok_or_else(|| no_such_token(name))
    }

    pub(crate) async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        self.retry
            .read(retry::deadline(), || self.store.owners_in_use(owners))
            .await
    }
}
