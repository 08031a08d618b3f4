//! `?cursor=…&limit=…`, and the cursor for the next piece.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use lockhouse::wire;
use serde::Deserialize;

use crate::failure::Failure;

/// The piece of a listing that is asked for: at most `limit` of what comes after `after`.
pub(crate) struct Paging<K> {
    pub(crate) after: Option<K>,
    pub(crate) limit: u32,
}

/// How many rows of a listing that has only one piece.
pub(crate) struct Limit(pub(crate) u32);

/// Text, so that what is no number is told with its field.
#[derive(Deserialize)]
struct Asked {
    cursor: Option<String>,
    limit: Option<String>,
}

impl<K> Paging<K> {
    /// Whether there may be more after a piece of `rows`.
    pub(crate) fn is_full(&self, rows: usize) -> bool {
        rows >= self.limit as usize
    }
}

impl<S: Send + Sync, K: FromStr> FromRequestParts<S> for Paging<K> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let asked = Asked::of(&parts.uri)?;
        let after = asked.cursor.as_deref().map(wire::key).transpose();
        Ok(Self {
            after: after
                .map_err(|invalid| Failure::malformed("cursor", invalid.problem().to_owned()))?,
            limit: asked.limit()?,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Limit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Asked::of(&parts.uri)?.limit().map(Self)
    }
}

impl Asked {
    fn of(uri: &Uri) -> Result<Self, Failure> {
        let asked = Query::try_from_uri(uri).map_err(|error| {
            Failure::malformed("query", format!("can't be read: {}", error.body_text()))
        })?;
        Ok(asked.0)
    }

    fn limit(&self) -> Result<u32, Failure> {
        let Some(text) = &self.limit else {
            return Ok(wire::DEFAULT_LIMIT);
        };
        let number = text
            .parse()
            .map_err(|_| Failure::malformed("limit", format!("is {text:?}, it takes a number")))?;
        Ok(wire::limit(number)?)
    }
}
