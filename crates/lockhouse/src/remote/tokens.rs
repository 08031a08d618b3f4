//! Access tokens at a server.

use lockhouse_core::store::Page;
use lockhouse_core::{Refusal, Timestamp, Token, TokenGrant, TokenName};
use lockhouse_wire as wire;
use tokio::time::Instant;

use super::Remote;
use super::exchange::PATIENCE;
use crate::{Error, Secret};

impl Remote {
    pub(crate) async fn create_token(
        &self,
        name: TokenName,
        grants: &[TokenGrant],
        expires_at: Option<Timestamp>,
    ) -> Result<(Token, Secret), Error> {
        let body = wire::NewToken {
            name: name.to_string(),
            grants: grants.iter().map(TokenGrant::to_string).collect(),
            expires_at,
        };
        let url = self.address.tokens();
        let build = || self.client().post(url.clone()).json(&body);
        let asked = self.ask(Instant::now() + PATIENCE, build).await;
        let answer = match asked.result {
            Err(Error::Refused(Refusal::TokenExists(_))) if asked.asked_before.is_some() => {
                let what = "an answer was lost, and with it perhaps the token's secret; revoke the \
                            token, and create it again";
                return Err(Error::Internal(what.into()));
            }
            result => result?,
        };
        let made: wire::MadeToken = self.json(&answer)?;
        let secret = made.secret.parse::<Secret>();
        let secret = secret.map_err(|invalid| self.nonsense(&invalid))?;
        Ok((self.made(made.token)?, secret))
    }

    pub(crate) async fn tokens(&self, page: &Page<TokenName>) -> Result<Vec<Token>, Error> {
        let url = self.address.page(self.address.tokens(), page);
        let answer = self.get(url).await?;
        self.made_all(self.json::<wire::Tokens>(&answer)?.tokens)
    }

    pub(crate) async fn revoke_token(&self, name: &TokenName) -> Result<(), Error> {
        let url = self.address.token(name)?;
        let build = || self.client().delete(url.clone());
        let asked = self.ask(Instant::now() + PATIENCE, build).await;
        asked.result.map(drop)
    }
}
