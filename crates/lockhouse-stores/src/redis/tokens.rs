//! Access tokens.

use async_trait::async_trait;
use lockhouse_core::store::{Due, Error, Kind, MAX_TOKENS, NewToken, TokenList, Tokens};
use lockhouse_core::{Digest, Owner, Timestamp, Token, TokenName};

use super::answer::Rows;
use super::{Inner, Redis, rows};

/// So often a change is tried while others change tokens.
const TRIES: usize = 100;

#[async_trait]
impl Tokens for Redis {
    async fn tokens(&self) -> Result<TokenList, Error> {
        let (mut tokens, _, now) = self.0.read_tokens().await?;
        tokens.truncate(MAX_TOKENS as usize);
        Ok(TokenList { now, tokens })
    }

    async fn add_token(&self, token: &NewToken) -> Result<Option<Token>, Error> {
        self.0
            .change_tokens(|tokens, now| {
                let ended = |(digest, old): &(Digest, Token)| {
                    old.name == token.name && *digest != token.digest && !old.is_good(now)
                };
                tokens.retain(|token| !ended(token));
                let same = tokens.iter().find(|(_, old)| old.name == token.name);
                if let Some((digest, old)) = same {
                    return (*digest == token.digest).then(|| old.clone());
                }
                let made = token.made_at(now);
                tokens.push((token.digest, made.clone()));
                Some(made)
            })
            .await
    }

    async fn revoke_token(&self, name: &TokenName) -> Result<Option<Token>, Error> {
        self.0
            .change_tokens(|tokens, now| {
                let (_, token) = tokens.iter_mut().find(|(_, token)| token.name == *name)?;
                token.revoked_at.get_or_insert(now);
                Some(token.clone())
            })
            .await
    }

    async fn owners_in_use(&self, owners: &[Owner]) -> Result<Vec<Owner>, Error> {
        let keys = owners.iter().map(|owner| self.0.keys.session(owner));
        let Rows { values, .. } = self.0.rows(keys.collect()).await?;
        let mut in_use = Vec::new();
        // Behind the row of the schema.
        for (owner, session) in owners.iter().zip(&values[1..]) {
            let has_session = !session.is_empty();
            if has_session || !self.0.due(Due::OwnedBy(owner), 1).await?.is_empty() {
                in_use.push(owner.clone());
            }
        }
        Ok(in_use)
    }
}

impl Inner {
    /// All tokens, in byte order of their names; their row, and the time.
    async fn read_tokens(&self) -> Result<(Vec<(Digest, Token)>, Vec<u8>, Timestamp), Error> {
        let Rows { at, mut values, .. } = self.rows(vec![self.keys.of("tokens")]).await?;
        let row = values.pop().unwrap_or_default();
        Ok((rows::tokens(&row)?, row, at))
    }

    async fn change_tokens<T>(
        &self,
        change: impl Fn(&mut Vec<(Digest, Token)>, Timestamp) -> T,
    ) -> Result<T, Error> {
        for _ in 0..TRIES {
            let (mut tokens, row, now) = self.read_tokens().await?;
            let before = tokens.clone();
            let changed = change(&mut tokens, now);
            if tokens == before {
                return Ok(changed);
            }
            tokens.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
            let (key, is) = (self.keys.of("tokens"), rows::of_tokens(&tokens));
            if self
                .replace(key, row, is, "changing an access token")
                .await?
            {
                return Ok(changed);
            }
        }
        let busy = "other processes kept changing access tokens; try again";
        Err(Error::new(Kind::Conflict, busy))
    }
}
