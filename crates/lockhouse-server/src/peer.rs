//! The address that a call came from.

use std::net::IpAddr;

use axum::http::Extensions;
use lockhouse::Owner;
use tokio::net::TcpStream;

/// The other end of a connection. Behind a proxy, it is the proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    /// Of the connection `stream`, unless it has broken.
    pub(crate) fn of(stream: &TcpStream) -> Option<Self> {
        let address = stream.peer_addr().ok()?;
        Some(Self(address.ip().to_canonical()))
    }

    /// Who a call that names nobody is by.
    pub(crate) fn name(extensions: &Extensions) -> Option<Owner> {
        let Self(address) = extensions.get()?;
        Owner::parse(address.to_string()).ok()
    }
}
