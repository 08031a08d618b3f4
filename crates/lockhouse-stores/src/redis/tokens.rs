//! Access tokens. All are in one row.

use async_trait::async_trait;
use lockhouse_core::store::{Error, NewToken, Page, TokenList, Tokens};
use lockhouse_core::{Digest, Owner, Token, TokenName};

use super::Redis;

const ALL: &str = "tokens";

type Stored = (Digest, Token);

#[async_trait]
impl Tokens for Redis {
    async fn tokens(&self, page: &Page<TokenName>) -> Result<TokenList, Error> {
        let (mut tokens, read) = self.all::<Stored>(ALL).await?;
        tokens.retain(|(_, token)| page.after.as_ref().is_none_or(|a| token.name > *a));
        tokens.truncate(page.limit as usize);
        Ok(TokenList {
            now: read.at,
            tokens,
        })
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        self.change(ALL, |tokens: &mut Vec<Stored>, now| {
            let ended = |(digest, old): &Stored| {
                old.name == token.name && *digest != token.digest && !old.is_good(now)
            };
            tokens.retain(|token| !ended(token));
            let same = tokens.iter().find(|(_, old)| old.name == token.name);
            if let Some((digest, old)) = same {
                return (*digest == token.digest).then(|| old.clone());
            }
            let made = token.made_at(now);
            tokens.push((token.digest, made.clone()));
            tokens.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
            Some(made)
        })
        .await
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        self.change(ALL, |tokens: &mut Vec<Stored>, now| {
            let (_, token) = tokens.iter_mut().find(|(_, token)| token.name == *name)?;
            token.revoked_at.get_or_insert(now);
            Some(token.clone())
        })
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
