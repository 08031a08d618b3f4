//! The order of messages.

use std::sync::Arc;

use tokio::sync::watch;

/// The order in which the messages of clients arrive at each server.
#[derive(Debug)]
pub struct Turns {
    /// The clients in their order, for each server.
    order: [[usize; 3]; 5],
    /// How many clients have had their turn, for each server.
    had: Vec<watch::Sender<usize>>,
}

impl Turns {
    pub(super) fn new(order: [[usize; 3]; 5]) -> Arc<Self> {
        let had = order.iter().map(|_| watch::Sender::new(0)).collect();
        Arc::new(Self { order, had })
    }

    pub(super) async fn wait(&self, node: usize, client: usize) {
        let turn = self.order[node].iter().position(|it| *it == client);
        let mut had = self.had[node].subscribe();
        // The sender lives as long as `self`.
        let _ = had.wait_for(|had| Some(*had) >= turn).await;
    }

    pub(super) fn next(&self, node: usize) {
        self.had[node].send_modify(|had| *had += 1);
    }
}
