//! The address that a call came from.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use lockhouse::Owner;
use tokio::net::TcpStream;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The caller's address: the other end of the connection, or the address that a trusted proxy
/// names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    /// The peer of the connection `stream`, unless it is broken.
    pub(crate) fn of(stream: &TcpStream) -> Option<Self> {
        let address = stream.peer_addr().ok()?;
        Some(Self(address.ip().to_canonical()))
    }

    /// The peer of the call with these extensions. No address if the call came by other means than
    /// [`serve`](crate::serve()).
    pub(crate) fn of_call(extensions: &Extensions) -> Self {
        let nowhere = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        extensions.get().copied().unwrap_or(nowhere)
    }

    /// The caller that the nearest proxy names. Earlier entries of the header may be forged.
    fn forwarded(headers: &HeaderMap) -> Option<Self> {
        let last = headers.get_all(FORWARDED_FOR).iter().next_back()?;
        let (_, address) = last
            .to_str()
            .ok()?
            .rsplit_once(',')
            .unwrap_or(("", last.to_str().ok()?));
        let address: IpAddr = address.trim().parse().ok()?;
        Some(Self(address.to_canonical()))
    }

    pub(crate) fn address(self) -> IpAddr {
        self.0
    }

    /// The `ended_by` of a call that names nobody.
    pub(crate) fn name(extensions: &Extensions) -> Option<Owner> {
        let Self(address) = extensions.get()?;
        Owner::parse(address.to_string()).ok()
    }
}

/// Replaces the peer of `request` by the caller that a trusted proxy names.
pub(crate) async fn named_by_proxy(
    State(is_behind_proxy): State<bool>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(peer) = Peer::forwarded(request.headers()).filter(|_| is_behind_proxy) {
        request.extensions_mut().insert(peer);
    }
    next.run(request).await
}

/// The address, or for IPv6 its network, since a caller may have many IPv6 addresses.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of_call(&parts.extensions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_proxy_is_believed_and_what_came_with_the_call_is_not() {
        let said = |values: &[&str]| {
            let name = FORWARDED_FOR.parse::<axum::http::HeaderName>().unwrap();
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(name.clone(), value.parse().unwrap());
            }
            Peer::forwarded(&headers).map(|peer| peer.address().to_string())
        };
        assert_eq!(said(&["1.2.3.4, 5.6.7.8"]).as_deref(), Some("5.6.7.8"));
        assert_eq!(
            said(&["1.2.3.4", "::ffff:9.9.9.9"]).as_deref(),
            Some("9.9.9.9")
        );
        assert_eq!(said(&["nonsense"]), None);
        assert_eq!(said(&[]), None);
    }
}
