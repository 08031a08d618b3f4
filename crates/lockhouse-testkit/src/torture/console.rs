//! Statements that the run itself sends, past every proxy: SQL, or commands of Redis.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{IntoConnectionInfo as _, RedisError, Value, from_redis_value};
use sqlx::{Connection as _, MySqlConnection, PgConnection};
use tokio::time::timeout;

use crate::redis::is_redis;
use crate::statement::is_postgres;

/// How long a statement of the run may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server.
pub(super) enum Console {
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Redis(MultiplexedConnection),
}

impl Console {
    pub(super) async fn connect(url: &str) -> Result<Self, String> {
        let connecting = async {
            if is_redis(url) {
                return redis_connection(url)
                    .await
                    .map(Self::Redis)
                    .map_err(|error| error.to_string());
            }
            let connected = if is_postgres(url) {
                PgConnection::connect(url).await.map(Self::Postgres)
            } else {
                MySqlConnection::connect(url).await.map(Self::MySql)
            };
            connected.map_err(|error| error.to_string())
        };
        let connected = timeout(PATIENCE, connecting).await;
        connected.map_err(|_| "no answer".to_owned())?
    }

    pub(super) async fn run(&mut self, statement: &str) -> Result<(), String> {
        self.run_within(PATIENCE, statement).await
    }

    pub(super) async fn run_within(
        &mut self,
        patience: Duration,
        statement: &str,
    ) -> Result<(), String> {
        let running = async {
            match self {
                Self::MySql(connection) => sqlx::raw_sql(statement)
                    .execute(connection)
                    .await
                    .map(|_| ())
                    .map_err(|error| error.to_string()),
                Self::Postgres(connection) => sqlx::raw_sql(statement)
                    .execute(connection)
                    .await
                    .map(|_| ())
                    .map_err(|error| error.to_string()),
                Self::Redis(connection) => answer(connection, statement).await.map(drop),
            }
        };
        let ran = timeout(patience, running).await;
        ran.map_err(|_| "no answer".to_owned())?
    }

    /// The text that `query` selects.
    pub(super) async fn text(&mut self, query: &str) -> Result<String, String> {
        let running = async {
            let text = match self {
                Self::MySql(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
                Self::Postgres(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
                Self::Redis(connection) => return answer(connection, query).await,
            };
            text.map_err(|error| error.to_string())
        };
        let ran = timeout(PATIENCE, running).await;
        ran.map_err(|_| "no answer".to_owned())?
    }
}

/// A connection that the server accepts. A server with too many connections refuses only at the first command.
async fn redis_connection(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let info = url.into_connection_info()?;
    // The driver would ignore the answer to the command that sets its name.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    let client = redis::Client::open(info.set_redis_settings(settings))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let () = redis::cmd("PING").query_async(&mut connection).await?;
    Ok(connection)
}

/// The answer of a command. The parts of a list are joined with dots.
async fn answer(connection: &mut MultiplexedConnection, command: &str) -> Result<String, String> {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    let answer = async {
        let parts = match command.query_async(connection).await? {
            Value::Array(parts) => parts,
            one => vec![one],
        };
        let texts: Result<Vec<String>, _> = parts.into_iter().map(from_redis_value).collect();
        Ok::<_, RedisError>(texts?.join("."))
    };
    answer.await.map_err(|error| error.to_string())
}

/// Whether the server takes queries.
pub(super) async fn is_up(url: &str) -> bool {
    // Redis has a command SELECT, which chooses a database, and fails until the server has loaded its data.
    let asked = async { Console::connect(url).await.ok()?.run("SELECT 1").await.ok() };
    timeout(Duration::from_secs(1), asked)
        .await
        .is_ok_and(|up| up.is_some())
}
