//! Access tokens. All are in one row.

use async_trait::async_trait;
use lockhouse_core::store::{Error, NewToken, Page, TokenList, Tokens};
use lockhouse_core::{Digest, Owner, Token, TokenName};

use super::Redis;
use super::writes::Listed;
use crate::lists;

type Stored = (Digest, Token);

impl Listed for Stored {
    const LIST: &'static str = "tokens";
    type Key = TokenName;

    fn key(&self) -> TokenName {
        self.1.name.clone()
    }
}

#[async_trait]
impl Tokens for Redis {
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        let (tokens, read) = self.all::<Stored>().await?;
        Ok(TokenList {
            now: read.at,
            tokens: lists::page(&tokens, page),
        })
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        self.change::<Stored, _>(|tokens, now| lists::add_token(tokens, token, now))
            .await
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        self.change::<Stored, _>(|tokens, now| lists::revoke(tokens, name, now))
            .await
    }

    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        let sessions = owners.iter().map(|owner| self.keys.session(owner));
        let sessions = self.load(sessions).await?.values;
        let mut in_use = Vec::new();
        for (owner, session) in owners.iter().zip(sessions) {
            if !session.is_empty() || !self.owned_by(owner, 1).await?.is_empty() {
                in_use.push(owner.clone());
            }
        }
        Ok(in_use)
    }
}
