//! `?cursor=…&limit=…`, and the cursor for the next page.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lockhouse_wire as wire;

use crate::failure::Failure;
use crate::query::parameters;

/// The requested page of a listing: at most `limit` rows after `after`.
pub(crate) struct Paging<K> {
    pub(crate) after: Option<K>,
    pub(crate) limit: u32,
}

/// The limit of a listing that has only one page.
pub(crate) struct Limit(pub(crate) u32);

impl<K> Paging<K> {
    /// Whether more rows may follow a page of `rows` rows.
    pub(crate) fn is_full(&self, rows: usize) -> bool {
        rows >= self.limit as usize
    }
}

impl<K: FromStr> Paging<K> {
    pub(crate) fn of(cursor: Option<String>, limit: Option<String>) -> Result<Self, Failure> {
        let after = cursor.as_deref().map(wire::key).transpose();
        Ok(Self {
            after: after
                .map_err(|invalid| Failure::malformed("cursor", invalid.problem().to_owned()))?,
            limit: parse_limit(limit)?,
        })
    }
}

impl<S: Send + Sync, K: FromStr> FromRequestParts<S> for Paging<K> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let [cursor, limit] = parameters(&parts.uri, ["cursor", "limit"])?;
        Self::of(cursor, limit)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Limit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let [limit] = parameters(&parts.uri, ["limit"])?;
        parse_limit(limit).map(Self)
    }
}

fn parse_limit(limit: Option<String>) -> Result<u32, Failure> {
    let Some(text) = limit else {
        return Ok(wire::DEFAULT_LIMIT);
    };
    let number = text
        .parse()
        .map_err(|_| Failure::malformed("limit", format!("is {text:?}; it must be a number")))?;
    Ok(wire::limit(number)?)
}
