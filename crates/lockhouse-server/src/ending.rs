//! `?force=true&by=…`: whether a request is released, or ended over its holder's head.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lockhouse::{Invalid, Owner};

use crate::failure::Failure;
use crate::query::parameters;

/// Who ends a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its holder.
    Released,
    /// An operator, and who that is, if they said.
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
                let problem = format!("is {other:?}, it takes true or false");
                return Err(Failure::malformed("force", problem));
            }
        };
        let by = by.map(Owner::parse).transpose();
        let by = by.map_err(|invalid| invalid.on("by"))?;
        match (force, by) {
            (true, by) => Ok(Self::Forced { by }),
            (false, None) => Ok(Self::Released),
            (false, Some(_)) => Err(Invalid::new("by", "goes with force=true alone").into()),
        }
    }
}
