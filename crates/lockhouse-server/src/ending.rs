//! `?force=true&by=…`: whether a request is released or ended by force, and by whom.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lockhouse::Owner;

use crate::access::Principal;
use crate::failure::Failure;
use crate::peer::Peer;
use crate::query::parameters;

/// How a request is ended, and by whom.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By its holder, or another caller that knows its id.
    Released { by: Option<Owner> },
    /// By an operator.
    Forced { by: Option<Owner> },
}

impl<S: Send + Sync> FromRequestParts<S> for Ending {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let [force, by] = parameters(&parts.uri, ["force", "by"])?;
        let force = match force.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let problem = format!("is {other:?}; it must be true or false");
                return Err(Failure::malformed("force", problem));
            }
        };
        let by = by.map(Owner::parse).transpose();
        let by = by.map_err(|invalid| invalid.on("by"))?;
        // The handler adds the name of the token.
        let principal = parts.extensions.get::<Principal>();
        let by = match principal.and_then(Principal::token) {
            Some(_) => by,
            None => by.or_else(|| Peer::name(&parts.extensions)),
        };
        Ok(match force {
            true => Self::Forced { by },
            false => Self::Released { by },
        })
    }
}
