//! `/`: a page that shows the semaphores. It needs nothing but the API.

use axum::Extension;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse};

use crate::answer::Static;

const PAGE: &str = include_str!("console.html");

/// Loads nothing from other sites, and no page may frame it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn get() -> impl IntoResponse {
    let head = [(CONTENT_SECURITY_POLICY, POLICY)];
    (Extension(Static), head, Html(PAGE))
}
