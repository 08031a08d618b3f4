//! Query strings. Each call names the parameters that it takes. Unknown and repeated parameters are
//! refused, since ignoring one could change the meaning of the call.
//!
//! `/healthz`, `/readyz`, `/metrics`, `/openapi.json` and the page are not part of the API and
//! ignore parameters, since probes and scrapers add some.

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;

use crate::failure::Failure;
use crate::percent;

/// The query of a call that takes no parameters.
pub(crate) struct NoParameters;

impl<S: Send + Sync> FromRequestParts<S> for NoParameters {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        parameters(&parts.uri, []).map(|[]| Self)
    }
}

/// The values in `uri` of the parameters called `names`, decoded.
pub(crate) fn parameters<const N: usize>(
    uri: &Uri,
    names: [&'static str; N],
) -> Result<[Option<String>; N], Failure> {
    let mut values = [const { None }; N];
    let query = uri.query().unwrap_or_default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let Some(known) = names.iter().position(|known| *known == name) else {
            return Err(Failure::malformed(name, not_taken(&names)));
        };
        if values[known].replace(value).is_some() {
            return Err(Failure::malformed(names[known], "occurs more than once"));
        }
    }
    Ok(values)
}

fn not_taken(names: &[&str]) -> String {
    match names {
        [] => "is not a parameter of this call, which takes none".to_owned(),
        _ => format!(
            "is not a parameter of this call, which takes {}",
            names.join(", ")
        ),
    }
}

fn decode(text: &str) -> Result<String, Failure> {
    let text = text.replace('+', " ");
    percent::decode(&text).map_err(|problem| Failure::malformed("query", problem))
}
