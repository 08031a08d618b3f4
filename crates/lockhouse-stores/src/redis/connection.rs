//! Runs scripts and commands on one connection to the server, which all calls share.
//!
//! The driver sends the commands of all calls in one stream and matches the answers, also for
//! callers that have gone away. Its timeout and its reconnection are off. Its timeout of half a
//! second would end calls that are only slow, and a reconnect during a call would hide whether a
//! command was sent. A connection with any error is dropped, and the next call opens another. That
//! also resolves the name again, which may stand for another server after a failover.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{self, Error, Kind};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult, ScriptInvocation,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error;
use super::info::Info;
use super::url::Location;

/// How long the server may take to accept a connection, and for each answer.
const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(3);

/// Opens and lends the connection.
pub(super) struct Connections {
    client: Client,
    pub(super) display: String,
    open: Mutex<Open>,
    has_connected: AtomicBool,
    /// How many connections were opened.
    opened: AtomicU64,
}

#[derive(Default)]
struct Open {
    connection: Option<MultiplexedConnection>,
    /// The number of the connection, so that a call that fails late does not close a newer one.
    number: u64,
}

impl Connections {
    /// It opens no connection yet.
    pub(super) fn new(location: Location) -> Self {
        Self {
            client: location.client,
            display: location.display,
            open: Mutex::default(),
            has_connected: AtomicBool::new(false),
            opened: AtomicU64::new(0),
        }
    }

    /// Runs a script that only reads.
    pub(super) async fn read<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, Error> {
        self.run(script, Kind::Unavailable, "reading").await
    }

    /// Runs a script that may write.
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
        let asked = command.query_async(&mut connection);
        self.answer(number, asked, Kind::Unavailable, context).await
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        lost: Kind,
        context: &str,
    ) -> Result<T, Error> {
        let (mut connection, number) = self.lend().await?;
        let asked = script.invoke_async(&mut connection);
        self.answer(number, asked, lost, context).await
    }

    /// Waits for the answer. Drops the connection if none came, or if the server can no longer be used. `lost` is the kind of
    /// the error if no answer came.
    async fn answer<T>(
        &self,
        number: u64,
        asked: impl Future<Output = RedisResult<T>>,
        lost: Kind,
        context: &str,
    ) -> Result<T, Error> {
        let answer = timeout(ANSWER, asked).await;
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

    /// All calls share the one connection, so it is busy while it is open.
    pub(super) fn state(&self) -> store::Connections {
        let open = self.open.try_lock();
        let is_open = open.is_ok_and(|open| open.connection.is_some());
        store::Connections {
            most: 1,
            busy: is_open.into(),
            idle: 0,
            opened: self.opened.load(Relaxed),
            queued: 0,
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
        self.opened.fetch_add(1, Relaxed);
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
