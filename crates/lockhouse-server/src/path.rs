//! Names and ids in paths.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use lockhouse::{Code, Invalid};

use crate::failure::Failure;

/// The one parameter of a route: a segment of the path, percent-decoded and parsed.
pub(crate) struct Named<T>(pub(crate) T);

impl<S: Send + Sync, T: FromStr<Err = Invalid>> FromRequestParts<S> for Named<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| Failure::malformed("path", "is not UTF-8 when percent-decoded"))?;
        let Some((_, text)) = params.iter().next() else {
            return Err(Failure::new(Code::Internal, "the route has no parameter"));
        };
        Ok(Self(text.parse()?))
    }
}
