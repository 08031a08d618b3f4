//! Names and ids in paths.

use std::str::FromStr;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{Extensions, Uri};
use lockhouse::{Code, Invalid};

use crate::failure::Failure;
use crate::percent;

/// The one parameter of a route: a segment of the path, percent-decoded and parsed.
pub(crate) struct Named<T>(pub(crate) T);

impl<S: Send + Sync, T: FromStr<Err = Invalid>> FromRequestParts<S> for Named<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self(name(&parts.uri, &parts.extensions)?.parse()?))
    }
}

/// The one parameter of the route of a call to `uri` with these `extensions`, percent-decoded.
pub(crate) fn name(uri: &Uri, extensions: &Extensions) -> Result<String, Failure> {
    let route = extensions.get().map(MatchedPath::as_str);
    let route = route.unwrap_or_default().rsplit('/');
    // From the end on, since the router may be nested under another path.
    let mut segments = route.zip(uri.path().rsplit('/'));
    let named = segments.find(|(of_route, _)| of_route.starts_with('{'));
    let Some((_, segment)) = named else {
        return Err(Failure::new(Code::Internal, "the route has no parameter"));
    };
    percent::decode(segment).map_err(|problem| Failure::malformed("path", problem))
}
