//! `/v1/session`: the console's login.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use lockhouse_wire::Login;

use super::Access;
use super::session::LASTS;
use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::peer::Peer;
use crate::query::NoParameters;

/// `POST /v1/session`: begins a session with a token.
pub(crate) async fn post(
    State(access): State<Arc<Access>>,
    peer: Peer,
    _: NoParameters,
    Json(Login { token }): Json<Login>,
) -> Result<impl IntoResponse, Failure> {
    let digest = access.login(&token, peer).await?;
    let cookie = access.sessions().begin(digest)?;
    let cookie = access.cookie(cookie.reveal(), LASTS);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]))
}

/// `DELETE /v1/session`: ends it.
pub(crate) async fn delete(
    State(access): State<Arc<Access>>,
    _: NoParameters,
    headers: HeaderMap,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> impl IntoResponse {
    access.sessions().end(&headers);
    let cookie = access.cookie("", Duration::ZERO);
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)])
}
