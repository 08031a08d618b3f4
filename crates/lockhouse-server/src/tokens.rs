//! `/v1/tokens`: create, list and revoke access tokens.

use axum::extract::State;
use axum::http::StatusCode;
use lockhouse::{Lockhouse, TokenGrant, TokenName};
use lockhouse_wire::{self as wire, MadeToken, NewToken, Tokens};

use crate::audit::Audited;
use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::paging::Paging;
use crate::path::Named;
use crate::query::NoParameters;

pub(crate) async fn post(
    State(lockhouse): State<Lockhouse>,
    _: NoParameters,
    Json(body): Json<NewToken>,
) -> Result<(StatusCode, Audited, Json<MadeToken>), Failure> {
    let grants = body.grants.iter().map(|grant| grant.parse::<TokenGrant>());
    let grants = grants.collect::<Result<Vec<_>, _>>()?;
    let made = lockhouse.create_token(&body.name, &grants, body.expires_at);
    let (token, secret) = made.await?;
    let made = MadeToken {
        token: wire::Token::from(&token),
        secret: secret.reveal().to_owned(),
    };
    let audited = Audited::new("create_token", "token", &made.token.name);
    let audited = audited.with("grants", made.token.grants.clone());
    Ok((StatusCode::CREATED, audited, Json(made)))
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    paging: Paging<TokenName>,
) -> Result<Json<Tokens>, Failure> {
    let tokens = lockhouse.tokens().await?;
    let rest = tokens.iter();
    let mut rest = rest.skip_while(|token| {
        paging
            .after
            .as_ref()
            .is_some_and(|after| token.name <= *after)
    });
    let piece = rest.by_ref().take(paging.limit as usize);
    let tokens: Vec<_> = piece.map(wire::Token::from).collect();
    let last = tokens.last().filter(|_| rest.next().is_some());
    let next = last.map(|last| wire::cursor(&last.name));
    Ok(Json(Tokens { tokens, next }))
}

pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    Named(name): Named<TokenName>,
    _: NoParameters,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<(StatusCode, Audited), Failure> {
    let revoked = lockhouse.revoke_token(&name).await;
    revoked.map_err(|error| {
        let is_unknown = error.code() == lockhouse::Code::InvalidRequest;
        let failure = Failure::from(error);
        match is_unknown {
            true => failure.under(StatusCode::NOT_FOUND),
            false => failure,
        }
    })?;
    let audited = Audited::new("revoke_token", "token", &name);
    Ok((StatusCode::NO_CONTENT, audited))
}
