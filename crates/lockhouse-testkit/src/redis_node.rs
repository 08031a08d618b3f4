//! Redis servers for one test, which are killed, restarted and put under a wrong clock.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lockhouse_lab::clock::Clock;
use lockhouse_lab::redis::Nodes;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::torture::clock::Clocks;

/// How long a server may take to answer after its start.
const READY: Duration = Duration::from_secs(20);

/// A server, killed when this is dropped.
struct RedisNode {
    folder: TempDir,
    port: u16,
    /// Whether its data survives a restart.
    is_durable: bool,
    clock: Option<Arc<Clock>>,
    process: Mutex<Option<Child>>,
}

/// Some servers that know nothing of each other.
pub struct RedisNodes(Vec<RedisNode>);

impl RedisNodes {
    /// So many, whose data survives a restart or not, each under a clock that can jump if `has_clocks`.
    pub async fn start(number: usize, is_durable: bool, has_clocks: bool) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..number {
            let folder = tempfile::tempdir().unwrap();
            // libfaketime keeps Redis from starting.
            let clock = has_clocks.then(|| Clocks::new(folder.path()).clock());
            let node = RedisNode {
                folder,
                port: free_port(),
                is_durable,
                clock,
                process: Mutex::default(),
            };
            node.start().await;
            nodes.push(node);
        }
        Self(nodes)
    }
}

#[async_trait]
impl Nodes for RedisNodes {
    fn urls(&self) -> Vec<String> {
        self.0.iter().map(RedisNode::url).collect()
    }

    async fn restart(&self, node: usize) {
        let node = &self.0[node.min(self.0.len() - 1)];
        node.kill();
        node.start().await;
    }

    fn jump(&self, node: usize, by: Duration) {
        let clock = self.0[node.min(self.0.len() - 1)].clock.as_ref();
        clock.unwrap().set(by.as_secs() as i64 / 3_600).unwrap();
    }
}

impl RedisNode {
    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    async fn start(&self) {
        let append = if self.is_durable { "yes" } else { "no" };
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", append])
            .args(["--appendfsync", "always", "--dir"])
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(clock) = &self.clock {
            command.envs(clock.environment());
        }
        let process = command.spawn().unwrap();
        *self.process() = Some(process);
        let client = redis::Client::open(self.url()).unwrap();
        let until = Instant::now() + READY;
        loop {
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
                let ping = redis::cmd("PING");
                if ping.query_async::<String>(&mut connection).await.is_ok() {
                    return;
                }
            }
            assert!(Instant::now() < until, "redis-server did not start");
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            // One that has ended already cannot be killed.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
