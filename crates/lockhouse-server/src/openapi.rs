//! The contract of the HTTP API, for people's tools. It is kept by hand; tests hold it to the
//! routes that there are and to the answers that they give.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// The API as an OpenAPI 3.1 document.
pub const OPENAPI: &str = include_str!("openapi.json");

pub(crate) async fn get() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}
