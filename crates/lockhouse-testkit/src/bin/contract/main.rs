//! Runs the clients' contract with the remote client of this workspace: see `clients/contract/README.md`.
//!
//! Reads one JSON object a line, and writes one a line. Operations run side by side.

mod asking;
mod calls;
mod holds;
mod told;

use std::collections::HashMap;
use std::io::BufRead as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse::{ConnectOptions, Lockhouse};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use holds::Holds;
use told::{Failure, Told, say};

/// The client, and its permits and sessions.
struct Runner {
    lockhouse: Lockhouse,
    /// The limit of each call beyond the wait that it asks for, as a caller of this library would set.
    timeout: Option<Duration>,
    holds: Holds,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (send, mut commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if command["op"] == "exit" || send.send(command).is_err() {
                return;
            }
        }
    });
    let mut runner = None;
    let mut cancels = HashMap::new();
    while let Some(command) = commands.recv().await {
        let id = command["id"].as_u64().unwrap();
        match (command["op"].as_str().unwrap(), &runner) {
            ("connect", _) => {
                let connected = Runner::connect(&command).await;
                let (made, told) = match connected {
                    Ok(made) => (Some(Arc::new(made)), Ok(json!({}))),
                    Err(failure) => (None, Err(failure)),
                };
                runner = made;
                answer(id, told);
            }
            ("cancel", _) => {
                cancels.remove(&command["target"].as_u64().unwrap());
                answer(id, Ok(json!({})));
            }
            (_, Some(runner)) => {
                let (keep, cancelled) = oneshot::channel();
                cancels.insert(id, keep);
                tokio::spawn(perform(Arc::clone(runner), id, command, cancelled));
            }
            (op, None) => panic!("{op} before connect"),
        }
    }
    // After the end of the input, or `exit`, the program ends as programs of this library do.
    if let Some(runner) = runner {
        runner.holds.drop_all().await;
        runner.lockhouse.clone().close().await;
    }
}

/// Performs a command, until it is done or `cancelled` has lost its sender.
async fn perform(runner: Arc<Runner>, id: u64, command: Value, cancelled: oneshot::Receiver<()>) {
    let told = tokio::select! {
        told = runner.perform(&command) => told,
        _ = cancelled => Err(Failure::new("cancelled", "its future was dropped")),
    };
    answer(id, told);
}

fn answer(id: u64, told: Told) {
    say(&match told {
        Ok(value) => json!({ "id": id, "ok": value }),
        Err(Failure { code, detail }) => {
            json!({ "id": id, "error": { "code": code, "detail": detail } })
        }
    });
}

impl Runner {
    async fn connect(command: &Value) -> Result<Self, Failure> {
        let mut options = ConnectOptions::from_env()?;
        if let Some(token) = command["token"].as_str() {
            options = options.token(token.parse()?);
        }
        if let Some(file) = command["ca_file"].as_str() {
            options = options.ca_file(file);
        }
        let url = command["url"].as_str().unwrap();
        Ok(Self {
            lockhouse: Lockhouse::connect_with(url, options).await?,
            timeout: millis(&command["timeout_ms"]),
            holds: Holds::default(),
        })
    }

    async fn perform(&self, command: &Value) -> Told {
        match command["op"].as_str().unwrap() {
            "acquire" => self.acquire(command).await,
            "block" => self.block(command).await,
            "leave" => self.holds.leave(text(command, "permit")),
            "release" => self.holds.release(text(command, "permit")).await,
            "is_lost" => Ok(self.holds.is_lost(text(command, "permit")).await),
            "session" => self.session(command).await,
            "goodbye" => self.holds.goodbye(text(command, "session")).await,
            "busy" => {
                let end = Instant::now() + millis(&command["ms"]).unwrap();
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                Ok(json!({}))
            }
            _ => self.bounded(Duration::ZERO, self.call(command)).await,
        }
    }

    /// Awaits `call`, for at most the client's timeout beyond `wait`.
    async fn bounded(&self, wait: Duration, call: impl Future<Output = Told>) -> Told {
        let Some(timeout) = self.timeout else {
            return call.await;
        };
        match tokio::time::timeout(wait.saturating_add(timeout), call).await {
            Ok(told) => told,
            Err(_) => Err(Failure::new(
                "store_unavailable",
                "there was no answer in time",
            )),
        }
    }
}

fn text<'a>(command: &'a Value, member: &str) -> &'a str {
    command[member].as_str().unwrap_or_default()
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}
