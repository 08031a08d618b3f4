//! The rights that each route needs, in one table.
//!
//! A route that is not in the table is refused to every caller without all rights.

use axum::http::Method;
use lockhouse::access::Verb;

/// The right that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: anybody may.
    Nothing,
    /// A valid token. The answer has only the names that its grants cover.
    Token,
    /// The verb on the semaphore whose name is in the path.
    Named(Verb),
    /// The verb on all names that the pattern in the path matches.
    Matched(Verb),
    /// The verb on all names.
    All(Verb),
    /// The verb on some name.
    Some(Verb),
    /// The verb on each semaphore that the body names.
    EachNamed(Verb),
    /// The caller's token made the request, or has the verb on each of its semaphores.
    Own(Verb),
}

/// The right that a call of `method` to the route `path` needs.
pub(crate) fn needs(method: &Method, path: &str) -> Option<Needs> {
    let method = match *method {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    let mut rows = TABLE.iter();
    let row = rows.find(|(of, route, _)| *of == method.as_str() && *route == path);
    row.map(|(_, _, needs)| *needs)
}

/// Whether a call of `method` to the route `path` lists rows of the store.
pub(crate) fn is_listing(method: &Method, path: &str) -> bool {
    method.is_safe() && LISTINGS.contains(&path)
}

const LISTINGS: [&str; 7] = [
    "/v1/semaphores",
    "/v1/semaphores/{name}/holders",
    "/v1/semaphores/{name}/history",
    "/v1/semaphores/{name}/waiting",
    "/v1/requests",
    "/v1/templates",
    "/v1/tokens",
];

const TABLE: &[(&str, &str, Needs)] = &[
    ("GET", "/", Needs::Nothing),
    ("GET", "/healthz", Needs::Nothing),
    ("GET", "/readyz", Needs::Nothing),
    ("GET", "/openapi.json", Needs::Nothing),
    ("GET", "/metrics", Needs::All(Verb::Read)),
    ("POST", "/v1/session", Needs::Nothing),
    ("DELETE", "/v1/session", Needs::Nothing),
    ("GET", "/v1/semaphores", Needs::Token),
    ("PUT", "/v1/semaphores/{name}", Needs::Named(Verb::Define)),
    ("GET", "/v1/semaphores/{name}", Needs::Named(Verb::Read)),
    (
        "DELETE",
        "/v1/semaphores/{name}",
        Needs::Named(Verb::Define),
    ),
    (
        "GET",
        "/v1/semaphores/{name}/holders",
        Needs::Named(Verb::Read),
    ),
    (
        "GET",
        "/v1/semaphores/{name}/history",
        Needs::Named(Verb::Read),
    ),
    (
        "GET",
        "/v1/semaphores/{name}/waiting",
        Needs::Named(Verb::Read),
    ),
    ("GET", "/v1/requests", Needs::Token),
    (
        "PUT",
        "/v1/requests/{external_id}",
        Needs::EachNamed(Verb::Hold),
    ),
    ("GET", "/v1/requests/{external_id}", Needs::Own(Verb::Read)),
    (
        "DELETE",
        "/v1/requests/{external_id}",
        Needs::Own(Verb::Force),
    ),
    (
        "POST",
        "/v1/requests/{external_id}/renew",
        Needs::Own(Verb::Force),
    ),
    ("PUT", "/v1/owners/{owner}", Needs::Some(Verb::Hold)),
    ("DELETE", "/v1/owners/{owner}", Needs::Token),
    ("GET", "/v1/templates", Needs::All(Verb::Read)),
    (
        "PUT",
        "/v1/templates/{pattern}",
        Needs::Matched(Verb::Define),
    ),
    (
        "DELETE",
        "/v1/templates/{pattern}",
        Needs::Matched(Verb::Define),
    ),
    ("POST", "/v1/tokens", Needs::All(Verb::Admin)),
    ("GET", "/v1/tokens", Needs::All(Verb::Admin)),
    ("DELETE", "/v1/tokens/{name}", Needs::All(Verb::Admin)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_is_not_in_the_table_is_unknown() {
        assert_eq!(needs(&Method::GET, "/v1/secrets"), None);
        assert_eq!(needs(&Method::PATCH, "/v1/tokens"), None);
        assert_eq!(needs(&Method::HEAD, "/"), Some(Needs::Nothing));
    }

    #[test]
    fn each_listing_is_a_row() {
        for path in LISTINGS {
            assert!(needs(&Method::GET, path).is_some(), "{path}");
        }
    }

    #[test]
    fn no_row_is_there_twice() {
        for (at, (method, path, _)) in TABLE.iter().enumerate() {
            let mut others = TABLE[at + 1..].iter();
            assert!(others.all(|other| (other.0, other.1) != (*method, *path)));
        }
    }
}
