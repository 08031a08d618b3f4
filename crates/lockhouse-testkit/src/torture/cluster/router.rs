//! A proxy for a group with a primary: one address that leads to the writer, as MySQL Router, HAProxy or a virtual address
//! does.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::nodes::Nodes;

/// How often the router looks for the writer.
const LOOKS_EVERY: Duration = Duration::from_millis(200);

/// A router. It ends when it is dropped.
pub(super) struct Router {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Router {
    /// Starts a router, and waits until it has found the writer.
    pub(super) async fn before(nodes: Nodes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (writer, mut writers) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                // `None` while there is no writer, or while two nodes say that they are.
                let found = match nodes.writers().await[..] {
                    [one] => Some(nodes.port(one)),
                    _ => None,
                };
                writer.send_if_modified(|port| std::mem::replace(port, found) != found);
                sleep(LOOKS_EVERY).await;
            }
        });
        writers
            .wait_for(Option::is_some)
            .await
            .expect("its first task never ends");
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, writers.clone()));
            }
        });
        Self {
            address,
            _tasks: tasks,
        }
    }

    /// The URL of the database of permits, through the router.
    pub(super) fn url(&self) -> String {
        format!("mysql://root@{}/lockhouse", self.address)
    }
}

/// Carries a connection until one side hangs up, or the writer changes.
async fn carry(mut client: TcpStream, mut writer: watch::Receiver<Option<u16>>) {
    let Some(port) = *writer.borrow_and_update() else {
        return;
    };
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = writer.changed() => {}
    }
}
