//! `?force=true&by=…`: whether a request is released, or ended over its holder's head, and by whom.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use lockhouse::Owner;
use serde::Deserialize;

use crate::failure::Failure;
use crate::peer::Peer;

/// Who ends a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its holder, or somebody else who knows its id.
    Released { by: Option<Owner> },
    /// An operator.
    Forced { by: Option<Owner> },
}

/// Text, so that what can't be read is told with its field.
#[derive(Deserialize)]
struct Asked {
    force: Option<String>,
    by: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Ending {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Query(asked) = Query::<Asked>::try_from_uri(&parts.uri).map_err(|error| {
            Failure::malformed("query", format!("can't be read: {}", error.body_text()))
        })?;
        let force = match asked.force.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let problem = format!("is {other:?}, it takes true or false");
                return Err(Failure::malformed("force", problem));
            }
        };
        let by = asked.by.map(Owner::parse).transpose();
        let by = by.map_err(|invalid| invalid.on("by"))?;
        let by = by.or_else(|| Peer::name(&parts.extensions));
        Ok(match force {
            true => Self::Forced { by },
            false => Self::Released { by },
        })
    }
}
