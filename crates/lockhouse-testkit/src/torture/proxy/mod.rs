//! A proxy in front of one server. It can fail a connection in every way that a network and its devices can.
//!
//! One task carries each connection, in both directions. At each read, the active [`Failure`] decides what happens to the data,
//! and so does a [trap](Proxy::set_trap), which waits for a COMMIT. [`http`] does the same for whole requests and replies.

mod connection;
mod http;
mod link;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::plan::Point;
pub(super) use link::{Caught, Failure};
use link::{Shared, State, Trap};

/// A proxy. It and its connections end when it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A proxy before the server at `server`, a host and a port.
    pub(super) async fn before(server: &str) -> Self {
        Self::start(server, false).await
    }

    /// A proxy before an HTTP server.
    pub(super) async fn before_http(server: &str) -> Self {
        Self::start(server, true).await
    }

    async fn start(server: &str, is_http: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            server: Mutex::new(server.to_owned()),
            state: watch::Sender::new(State::default()),
            trap: Mutex::default(),
            is_http,
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// The port to connect to.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The server has a new address.
    pub(super) fn point_to(&self, server: &str) {
        *self
            .shared
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = server.to_owned();
    }

    /// The link fails from now on.
    pub(super) fn fail(&self, failure: Failure) {
        self.shared
            .state
            .send_modify(|state| state.failure = Some(failure));
    }

    /// Existing connections stay silent for good. New connections work.
    pub(super) fn forget_connections(&self) {
        self.shared
            .state
            .send_modify(|state| state.dead_before = state.connections);
    }

    /// Catches the next COMMIT at `point`.
    pub(super) fn set_trap(&self, point: Point) -> mpsc::Receiver<Caught> {
        let (caught, catch) = mpsc::channel(1);
        *self.shared.trap() = Some(Trap { point, caught });
        catch
    }

    /// Repairs the link. Data that was held back goes on, unless it was dropped.
    pub(super) fn mend(&self) {
        *self.shared.trap() = None;
        self.shared.state.send_modify(|state| state.failure = None);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.fail(Failure::Cut);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let mut nth = 0;
        shared.state.send_modify(|state| {
            nth = state.connections;
            state.connections += 1;
        });
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(&shared.server()).await else {
                return;
            };
            // Databases send many small packets.
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let mut state = shared.state.subscribe();
            let carrying = async {
                if shared.is_http {
                    http::carry(client, server, nth, &shared).await;
                } else {
                    connection::carry(client, server, nth, &shared).await;
                }
            };
            tokio::select! {
                () = carrying => {}
                _ = state.wait_for(State::is_cut) => {}
            }
        });
    }
}
