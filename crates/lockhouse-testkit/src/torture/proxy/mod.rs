//! A proxy before one server that can do to a connection all that a network and its boxes do.
//!
//! One task carries each connection, in both directions. At each read, the active [`Failure`]
//! decides what happens to the data, and so does a [trap](Proxy::set_trap), which waits for a
//! COMMIT to pass. [`http`] does the same for whole requests and replies.

mod connection;
mod http;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::plan::{Direction, Point};

/// A failure of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Every connection is closed, and every new one.
    Cut,
    /// Data in one direction is held back silently.
    OneWay(Direction),
    /// A few bytes at a time, with pauses.
    Slow,
    /// The next bytes are nonsense, and then the connection is closed.
    Garbled(Direction),
    /// Half of the next bytes get through, and then the connection is closed.
    ClosedMidPacket(Direction),
    /// Of HTTP: a request gets through, and its reply is lost with the connection.
    LostReplies,
    /// Of HTTP: replies come late, some of them too late.
    LateReplies,
    /// Of HTTP: a request gets there twice.
    RepeatedRequests,
    /// For HTTP: a reply comes, and then comes once more, perhaps to the next caller.
    RepeatedReplies,
}

/// A proxy. It and its connections end when it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<String>,
    state: watch::Sender<State>,
    trap: Mutex<Option<Trap>>,
    is_http: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How many connections there were.
    connections: usize,
    /// Those before this one are silent for good.
    dead_before: usize,
    failure: Option<Failure>,
}

/// Waits for a COMMIT.
#[derive(Debug)]
struct Trap {
    point: Point,
    /// Is sent to when one was caught. Its connection is closed when the answer is dropped.
    caught: mpsc::Sender<Caught>,
}

/// A COMMIT whose connection is held where the trap says, until this is dropped.
#[derive(Debug)]
pub(super) struct Caught {
    _held: tokio::sync::oneshot::Sender<()>,
}

impl Proxy {
    /// Before the server at `server`, a host and a port.
    pub(super) async fn before(server: &str) -> Self {
        Self::start(server, false).await
    }

    /// Before an HTTP server.
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

    /// The server is elsewhere now.
    pub(super) fn point_to(&self, server: &str) {
        *self
            .shared
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = server.to_owned();
    }

    /// Fails, from here on.
    pub(super) fn fail(&self, failure: Failure) {
        self.shared
            .state
            .send_modify(|state| state.failure = Some(failure));
    }

    /// The connections that there are stay silent for good; new ones work.
    pub(super) fn forget_connections(&self) {
        self.shared
            .state
            .send_modify(|state| state.dead_before = state.connections);
    }

    /// Waits for the next COMMIT to get to `point`.
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

impl Shared {
    fn server(&self) -> String {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.clone()
    }

    fn trap(&self) -> std::sync::MutexGuard<'_, Option<Trap>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_cut(&self) -> bool {
        self.failure == Some(Failure::Cut)
    }

    fn is_dead(&self, nth: usize) -> bool {
        nth < self.dead_before
    }

    /// Whether what comes from there is not read.
    fn holds_back(&self, nth: usize, direction: Direction) -> bool {
        self.is_dead(nth) || self.failure == Some(Failure::OneWay(direction))
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
            // Small packets are what databases live on.
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
