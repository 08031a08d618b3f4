//! SQL of a run's own, past every proxy.

use std::time::Duration;

use sqlx::{Connection as _, MySqlConnection, PgConnection};
use tokio::time::timeout;

use crate::place::is_postgres;

/// How long a statement of ours may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server.
pub(super) enum Sql {
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

impl Sql {
    pub(super) async fn connect(url: &str) -> Result<Self, String> {
        let connecting = async {
            if is_postgres(url) {
                PgConnection::connect(url).await.map(Self::Postgres)
            } else {
                MySqlConnection::connect(url).await.map(Self::MySql)
            }
        };
        let connected = timeout(PATIENCE, connecting).await;
        connected
            .map_err(|_| "no answer".to_owned())?
            .map_err(|error| error.to_string())
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
                    .map(|_| ()),
                Self::Postgres(connection) => sqlx::raw_sql(statement)
                    .execute(connection)
                    .await
                    .map(|_| ()),
            }
        };
        let ran = timeout(patience, running).await;
        ran.map_err(|_| "no answer".to_owned())?
            .map_err(|error| error.to_string())
    }

    /// The one text that `query` selects.
    pub(super) async fn text(&mut self, query: &str) -> Result<String, String> {
        let running = async {
            match self {
                Self::MySql(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
                Self::Postgres(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
            }
        };
        let ran = timeout(PATIENCE, running).await;
        ran.map_err(|_| "no answer".to_owned())?
            .map_err(|error| error.to_string())
    }
}

/// Whether the server takes queries.
pub(super) async fn is_up(url: &str) -> bool {
    let asked = async { Sql::connect(url).await.ok()?.run("SELECT 1").await.ok() };
    timeout(Duration::from_secs(1), asked)
        .await
        .is_ok_and(|up| up.is_some())
}
