//! A network link between a client and a server that a test can break and repair.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A TCP proxy before one server. It ends when it is dropped.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How many connections there were.
    connections: usize,
    /// The connections before this one are silent for good.
    dead_before: usize,
    failure: Option<Failure>,
}

/// A failure of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing gets through, and neither side gets an error.
    Silent,
    /// Every connection is closed, and every new one.
    Cut,
}

impl Link {
    /// A link to the server that `url` names.
    pub async fn to(url: &str) -> Self {
        let url = url::Url::parse(url).unwrap();
        let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = watch::Sender::new(State::default());
        let accepting = tokio::spawn(accept(listener, server, state.clone()));
        Self {
            address,
            state,
            accepting,
        }
    }

    /// `url`, by way of this link.
    pub fn before(&self, url: &str) -> String {
        let mut url = url::Url::parse(url).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.address.port())).unwrap();
        let text = url.to_string();
        text.trim_end_matches('/').to_owned()
    }

    /// The link fails from now on.
    pub fn fail(&self, failure: Failure) {
        self.state
            .send_modify(|state| state.failure = Some(failure));
    }

    /// Repairs the link. Data that was held back goes on.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.failure = None);
    }

    /// Existing connections stay silent for good, as behind a router that was restarted. New connections work.
    pub fn forget_connections(&self) {
        self.state
            .send_modify(|state| state.dead_before = state.connections);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl State {
    fn passes(&self, nth: usize) -> bool {
        self.failure.is_none() && nth >= self.dead_before
    }

    fn is_cut(&self) -> bool {
        self.failure == Some(Failure::Cut)
    }
}

async fn accept(listener: TcpListener, server: String, state: watch::Sender<State>) {
    while let Ok((client, _)) = listener.accept().await {
        let mut nth = 0;
        state.send_modify(|state| {
            nth = state.connections;
            state.connections += 1;
        });
        let Ok(server) = TcpStream::connect(&server).await else {
            continue;
        };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(carry(from_client, to_server, nth, state.subscribe()));
        tokio::spawn(carry(from_server, to_client, nth, state.subscribe()));
    }
}

/// Carries data until one side hangs up, or the link is cut.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    nth: usize,
    mut state: watch::Receiver<State>,
) {
    let mut watched = state.clone();
    let mut buffer = vec![0; 1 << 16];
    let carrying = async {
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let passes = watched.wait_for(|state| state.passes(nth)).await.is_ok();
            if !passes || to.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = carrying => {}
        _ = state.wait_for(State::is_cut) => {}
    }
}
