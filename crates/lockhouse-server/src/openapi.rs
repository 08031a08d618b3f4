//! The contract of the HTTP API, for people's tools. It is written by hand. Tests compare it with
//! the routes and their answers.

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::answer::Static;

/// The API as an OpenAPI 3.1 document.
pub const OPENAPI: &str = include_str!("openapi.json");

pub(crate) async fn get() -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "application/json")];
    (Extension(Static), head, OPENAPI)
}
