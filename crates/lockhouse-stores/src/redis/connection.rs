//! One connection to the server, which all calls share, and the scripts that are run on it.
//!
//! The driver sends the commands of all calls in one stream, and hands each its answer, also where a caller has gone
//! away. It neither times out nor reconnects here: its own timeout of half a second would end calls that are only slow, and a
//! reconnect in the middle of a call would hide whether a command was sent. When anything goes wrong on a connection it is dropped, and
//! the next call opens another. A name that now stands for another server, as after a failover, is resolved anew by that.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error;
use super::info::Info;
use super::url::Location;

/// How long the server may take to accept a connection, and for each answer.
const CONNECT: Duration = Duration::from_secs(3);
pub(super) const ANSWER: Duration = Duration::from_secs(3);

/// A script, and the hash that the server knows it by.
pub(super) struct Script {
    text: &'static str,
    hash: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(super) static $name: Script = Script {
            text: include_str!($file),
            hash: LazyLock::new(|| {
                redis::Script::new(include_str!($file))
                    .get_hash()
                    .to_owned()
            }),
        };
    };
}

script!(LOAD, "scripts/load.lua");
script!(SAVE, "scripts/save.lua");
script!(FIND, "scripts/find.lua");
script!(DUE, "scripts/due.lua");
script!(OWNERS, "scripts/owners.lua");
script!(PURGE, "scripts/purge.lua");
script!(SHOW, "scripts/show.lua");
script!(HELD, "scripts/held.lua");
script!(CHECK, "scripts/check.lua");

/// How to have the connection.
pub(super) struct Connections {
    client: Client,
    pub(super) display: String,
    open: Mutex<Open>,
    has_connected: AtomicBool,
}

#[derive(Default)]
struct Open {
    connection: Option<MultiplexedConnection>,
    /// Which one it is, so that a call that was slow to fail does not close a later one.
    number: u64,
}

impl Connections {
    /// None is opened before it is needed.
    pub(super) fn new(location: Location) -> Self {
        Self {
            client: location.client,
            display: location.display,
            open: Mutex::default(),
            has_connected: AtomicBool::new(false),
        }
    }

    /// Runs `script`. `lost` is the kind of the error if no answer comes.
    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[impl AsRef<[u8]>],
        lost: Kind,
        context: &str,
    ) -> Result<Value, Error> {
        let by = |command: &str, script: &str| {
            let mut command = redis::cmd(command);
            command.arg(script).arg(keys.len()).arg(keys);
            for argument in arguments {
                command.arg(argument.as_ref());
            }
            command
        };
        let mut answer = self
            .send(&by("EVALSHA", &script.hash), lost, context)
            .await?;
        if matches!(&answer, Err(error) if error.kind() == ServerErrorKind::NoScript.into()) {
            answer = self.send(&by("EVAL", script.text), lost, context).await?;
        }
        answer.map_err(|error| error::of(error, lost, context))
    }

    /// The answer to one command.
    pub(super) async fn ask(&self, command: &Cmd, context: &str) -> Result<Value, Error> {
        let answer = self.send(command, Kind::Unavailable, context).await?;
        answer.map_err(|error| error::of(error, Kind::Unavailable, context))
    }

    /// Sends `command` and returns the reply. Drops the connection if no reply came, or if the server can no longer be used.
    async fn send(
        &self,
        command: &Cmd,
        lost: Kind,
        context: &str,
    ) -> Result<RedisResult<Value>, Error> {
        let (mut connection, number) = self.lend().await?;
        let answer = timeout(ANSWER, command.query_async(&mut connection)).await;
        let is_well = match &answer {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => error::spares_connection(error),
            Err(_) => false,
        };
        if !is_well {
            let mut open = self.open.lock().await;
            if open.number == number {
                open.connection = None;
            }
        }
        answer.map_err(|_| {
            let silent = format!("{context}: no answer within {ANSWER:?}");
            Error::new(lost, silent)
        })
    }

    /// The connection, and its number.
    async fn lend(&self) -> Result<(MultiplexedConnection, u64), Error> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &open.connection {
            return Ok((connection.clone(), open.number));
        }
        let connection = self.connect().await?;
        open.number += 1;
        Ok((open.connection.insert(connection).clone(), open.number))
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Error> {
        let context = format!("connecting to {}", self.display);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let connecting = async {
            let mut connection = self
                .client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            let info = Info::read(&mut connection).await?;
            Ok((connection, info))
        };
        let connected = timeout(CONNECT, connecting).await.map_err(|_| {
            let silent = format!("{context}: no answer within {CONNECT:?}");
            Error::new(Kind::Unavailable, silent)
        })?;
        let (connection, info) =
            connected.map_err(|error: RedisError| error::of(error, Kind::Unavailable, &context))?;
        info.check(&self.display)?;
        if !self.has_connected.swap(true, Relaxed)
            && let Some(risk) = info.risk()
        {
            tracing::warn!(store = self.display, "{risk}");
        }
        Ok(connection)
    }
}
