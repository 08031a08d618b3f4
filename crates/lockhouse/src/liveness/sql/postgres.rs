//! SQL checks on PostgreSQL.

use futures_util::TryStreamExt;
use lockhouse_core::Owner;
use lockhouse_stores::postgres_options;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{ConnectOptions, Executor, Row, raw_sql};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::asking::{ANSWER, CONNECT, FRESH, Said, Trouble, takes_one, within};

/// The server has the same timeouts, so that an abandoned query does not go on there. They hold for
/// the transaction only: after it a pooler may give the session to others.
const BEGIN: &str =
    "BEGIN READ ONLY; SET LOCAL statement_timeout=5000; SET LOCAL lock_timeout=5000";

pub(super) struct PostgresCheck {
    options: PgConnectOptions,
    /// The connection, and when it was last used.
    idle: Mutex<Option<(PgConnection, Instant)>>,
}

impl PostgresCheck {
    pub(super) fn new(url: &str) -> Result<Self, Trouble> {
        let options = postgres_options(url)?;
        Ok(Self {
            options: options.disable_statement_logging(),
            idle: Mutex::new(None),
        })
    }

    pub(super) async fn ask(&self, query: &str, owner: &Owner) -> Result<Said, Trouble> {
        let mut idle = self.idle.lock().await;
        // Taken out, so that a connection that fails, or is abandoned with a half-read answer, is
        // closed.
        let mut connection = match idle.take().filter(|(_, used)| used.elapsed() < FRESH) {
            Some((connection, _)) => connection,
            None => within(CONNECT, self.connect(query)).await?,
        };
        let said = within(ANSWER, answer(&mut connection, query, owner)).await?;
        *idle = Some((connection, Instant::now()));
        Ok(said)
    }

    async fn connect(&self, query: &str) -> Result<PgConnection, Trouble> {
        let mut connection = self.options.connect().await?;
        // Naming the parameter's type would declare a parameter even if the query has none.
        let prepare = format!("{BEGIN}; PREPARE lockhouse_check AS {query}");
        connection.execute(raw_sql(&prepare)).await?;
        let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements \
            WHERE name = 'lockhouse_check'";
        let count: i32 = connection.fetch_one(raw_sql(count)).await?.try_get(0)?;
        let forget = raw_sql("DEALLOCATE lockhouse_check; ROLLBACK");
        connection.execute(forget).await?;
        takes_one(usize::try_from(count)?)?;
        Ok(connection)
    }
}

async fn answer(
    connection: &mut PgConnection,
    query: &str,
    owner: &Owner,
) -> Result<Said, Trouble> {
    connection.execute(raw_sql(BEGIN)).await?;
    // Unnamed: poolers lose named ones.
    let asked = sqlx::query(query).bind(owner.name()).persistent(false);
    let mut rows = asked.fetch(&mut *connection);
    let first = rows.try_next().await?;
    if first.is_some() && rows.try_next().await?.is_some() {
        return Err("the answer has more than one row".into());
    }
    drop(rows);
    connection.execute(raw_sql("ROLLBACK")).await?;
    Ok(first.map_or(Said::NoRow, |row| said(&row)))
}

fn said(row: &PgRow) -> Said {
    if row.len() != 1 {
        return Said::Other;
    }
    let truth = row.try_get::<bool, _>(0).map(i64::from);
    let number = truth
        .or_else(|_| row.try_get::<i64, _>(0))
        .or_else(|_| row.try_get::<i32, _>(0).map(i64::from))
        .or_else(|_| row.try_get::<i16, _>(0).map(i64::from));
    number.map_or(Said::Other, Said::One)
}
