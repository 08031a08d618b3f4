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

/// How often it is looked who the writer is.
const LOOKS_EVERY: Duration = Duration::from_millis(200);

/// Ends when it is dropped.
pub(super) struct Router {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Router {
    /// Starts it, and waits until it has found the writer.
    pub(super) async fn before(nodes: Nodes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (writer, mut writers) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                // None while there is none, or while two say that it is them.
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

    /// The database of permits, by way of it.
    pub(super) fn url(&self) -> String {
        format!("mysql://root@{}/lockhouse", self.address)
    }
}

/// Until one side hangs up, or the writer is another.
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
