//! One connection to the server, which all calls share, and scripts and commands on it.
//!
//! The driver sends the commands of all calls in one stream, and hands each its answer, also where a caller has gone
//! away. It neither times out nor reconnects here: its own timeout of half a second would end calls that are only slow, and a
//! reconnect in the middle of a call would hide whether a command was sent. When anything goes wrong on a connection it is dropped, and
//! the next call opens another. A name that now stands for another server, as after a failover, is resolved anew by that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult, ScriptInvocation,
};
use tokio::sync::Mutex;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::error;
use super::info::Info;
use super::url::Location;

/// How long the server may take to accept a connection, and for each answer.
const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(3);

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

    /// Runs a script that only reads.
    pub(super) async fn read<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, Error> {
        self.run(script, Kind::Unavailable, "reading").await
    }

    /// Runs a script that may change something.
    pub(super) async fn write<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        context: &str,
    ) -> Result<T, Error> {
        self.run(script, Kind::Unknown, context).await
    }

    /// The answer to one command, which may be sent twice.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        context: &str,
    ) -> Result<T, Error> {
        let (mut connection, number) = self.lend().await?;
        let answer = timeout(ANSWER, command.query_async(&mut connection)).await;
        self.settle(number, answer, Kind::Unavailable, context)
            .await
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        lost: Kind,
        context: &str,
    ) -> Result<T, Error> {
        let (mut connection, number) = self.lend().await?;
        let answer = timeout(ANSWER, script.invoke_async(&mut connection)).await;
        self.settle(number, answer, lost, context).await
    }

    /// Drops the connection if no answer came, or if the server can no longer be used. `lost` is the kind of the error if
    /// no answer came.
    async fn settle<T>(
        &self,
        number: u64,
        answer: Result<RedisResult<T>, Elapsed>,
        lost: Kind,
        context: &str,
    ) -> Result<T, Error> {
        let spares =
            |answer: &RedisResult<T>| answer.as_ref().err().is_none_or(error::spares_connection);
        if !answer.as_ref().is_ok_and(spares) {
            let mut open = self.open.lock().await;
            if open.number == number {
                open.connection = None;
            }
        }
        match answer {
            Ok(answer) => answer.map_err(|error| error::of(error, lost, context)),
            Err(_) => {
                let silent = format!("{context}: no answer within {ANSWER:?}");
                Err(Error::new(lost, silent))
            }
        }
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
