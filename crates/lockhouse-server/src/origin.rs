//! Host and origin checks: let in local programs and the server's own page, but no page of another
//! site.
//!
//! A server without tokens trusts every caller that reaches it. On a loopback address those are the
//! programs of one machine; a browser is one of them, and makes calls for any page that it shows.
//! Three checks keep such a page out:
//!
//! - `Host` must be a loopback name, else 421. A page that had its own name resolve to 127.0.0.1
//!   (DNS rebinding) calls the server by that name. A server off loopback does not know its names,
//!   and does not check this.
//! - `Origin` must be that of the server's own page, else 403. Browsers omit `Origin` for images,
//!   scripts and links, and send `Sec-Fetch-Site` instead. For these, another site may link to a
//!   page, and do nothing else.
//! - A body must be `application/json`, else 415: a page may send other types without a preflight.
//!   [`body`](crate::body) checks that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockhouse::Code;

use crate::failure::Failure;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The host names that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// `localhost` and the loopback addresses, with any port: there may be a tunnel in between.
    Loopback,
    /// Any.
    All,
}

/// The address of the server's own page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) hosts: Hosts,
    /// Whether the server itself speaks TLS.
    pub(crate) has_tls: bool,
    /// Whether a trusted proxy is in front of it.
    pub(crate) is_behind_proxy: bool,
}

impl Hosts {
    /// The site of a server that listens on `address`.
    pub(crate) fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical().is_loopback() {
            true => Hosts::Loopback,
            false => Hosts::All,
        }
    }
}

impl Site {
    /// A site under any name.
    pub(crate) const ANY: Self = Self {
        hosts: Hosts::All,
        has_tls: false,
        is_behind_proxy: false,
    };

    fn check(self, request: &Request) -> Result<(), Failure> {
        let own = self.named_by(request)?;
        if is_of_another_site(request) || !self.has_own_origin(request.headers(), own.as_ref()) {
            let detail = "a page of another site may not call this server";
            return Err(Failure::new(Code::Forbidden, detail));
        }
        Ok(())
    }

    /// The host that `request` names: in its target, else in `Host`. A host in the target does not
    /// excuse a foreign `Host`.
    fn named_by(self, request: &Request) -> Result<Option<Authority>, Failure> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().map(parse_host).transpose()?;
        if hosts.next().is_some() {
            return Err(malformed("occurs more than once"));
        }
        let target = request.uri().authority().cloned();
        if target.as_ref().is_some_and(has_user_info) {
            return Err(malformed("has user info"));
        }
        if self.hosts == Hosts::All {
            return Ok(target.or(host));
        }
        if target.is_none() && host.is_none() {
            return Err(malformed("is missing"));
        }
        if !target.iter().chain(&host).all(is_loopback) {
            let problem = "is not this server's; it listens on a loopback address, call it localhost, \
                           127.0.0.1 or [::1]";
            return Err(malformed(problem).under(StatusCode::MISDIRECTED_REQUEST));
        }
        Ok(target.or(host))
    }

    /// Whether every `Origin` is that of a page from `own`. Where the server is not on loopback, TLS
    /// may end at a proxy.
    fn has_own_origin(self, headers: &HeaderMap, own: Option<&Authority>) -> bool {
        let is_own = |origin: &HeaderValue| {
            let origin = origin.to_str().ok()?;
            let (scheme, authority) = origin.split_once("://")?;
            let default_port = match (scheme, self.hosts) {
                ("http", _) if !self.has_tls => 80,
                ("https", _) if self.has_tls => 443,
                ("https", Hosts::All) => 443,
                _ => return None,
            };
            let (origin, own) = (authority.parse::<Authority>().ok()?, own?);
            let port = |of: &Authority| of.port_u16().unwrap_or(default_port);
            let is_same = origin.host().eq_ignore_ascii_case(own.host())
                && port(&origin) == port(own)
                && !has_user_info(&origin);
            is_same.then_some(())
        };
        headers
            .get_all(ORIGIN)
            .iter()
            .all(|origin| is_own(origin).is_some())
    }
}

/// Refuses `request` if a page of another site made it.
pub(crate) async fn check(State(site): State<Site>, request: Request, next: Next) -> Response {
    match site.check(&request) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

/// Whether `Sec-Fetch-Site` says that another site made the call, which may have no `Origin`.
fn is_of_another_site(request: &Request) -> bool {
    let says = |header: HeaderName, value: &str| {
        let mut values = request.headers().get_all(header).iter();
        values.any(|said| said == value)
    };
    let is_a_link =
        matches!(*request.method(), Method::GET | Method::HEAD) && says(SEC_FETCH_MODE, "navigate");
    (says(SEC_FETCH_SITE, "cross-site") || says(SEC_FETCH_SITE, "same-site")) && !is_a_link
}

fn parse_host(host: &HeaderValue) -> Result<Authority, Failure> {
    let host = Authority::try_from(host.as_bytes()).ok();
    let host = host.filter(|host| !has_user_info(host));
    host.ok_or_else(|| malformed("is not a name or an address with a port"))
}

fn malformed(problem: &'static str) -> Failure {
    Failure::malformed("host", problem)
}

fn has_user_info(authority: &Authority) -> bool {
    authority.as_str().contains('@')
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    };
    match address {
        Some(address) => address.to_canonical().is_loopback(),
        None => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_a_loopback_address_has_loopback_names() {
        for address in [
            "127.0.0.1:7117",
            "127.9.8.7:1",
            "[::1]:7117",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(Hosts::of(address.parse().unwrap()), Hosts::Loopback);
        }
        for address in [
            "0.0.0.0:7117",
            "[::]:7117",
            "192.168.1.7:80",
            "[fe80::1]:80",
        ] {
            assert_eq!(Hosts::of(address.parse().unwrap()), Hosts::All);
        }
    }
}
