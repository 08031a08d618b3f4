//! A `lockhouse serve` for each node.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A server. Killed when dropped.
pub(super) struct Server {
    program: PathBuf,
    store: String,
    pub(super) url: String,
    child: Child,
}

impl Server {
    /// Starts it on the store at `store`. `program` is `lockhouse`.
    pub(super) async fn start(program: &Path, store: &str) -> Self {
        let (child, url) = serve(program, store, "127.0.0.1:0").await;
        Self {
            program: program.to_owned(),
            store: store.to_owned(),
            url,
            child,
        }
    }

    /// SIGKILL.
    pub(super) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Where it was.
    pub(super) async fn again(&mut self) {
        let listen = self.url.trim_start_matches("http://").to_owned();
        (self.child, _) = serve(&self.program, &self.store, &listen).await;
    }
}

async fn serve(program: &Path, store: &str, listen: &str) -> (Child, String) {
    // Its clients look for what is over by themselves.
    let mut child = Command::new(program)
        .args(["--url", store, "serve", "--listen", listen])
        .env("RUST_LOG", "error")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let line = BufReader::new(stdout).lines().next_line().await.unwrap();
    let line = line.expect("the server says where it is");
    let (_, url) = line.rsplit_once(" on ").expect("it ends with its URL");
    (child, url.to_owned())
}
