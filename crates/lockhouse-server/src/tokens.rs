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
    let list = |after, limit| lockhouse.tokens_after(after, limit);
    let listed = list(paging.after.as_ref(), paging.limit).await?;
    let mut next = None;
    if let Some(last) = listed.last().filter(|_| paging.is_full(listed.len())) {
        let more = list(Some(&last.name), 1).await?;
        next = (!more.is_empty()).then(|| wire::cursor(last.name.as_str()));
    }
    let tokens = listed.iter().map(wire::Token::from).collect();
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
