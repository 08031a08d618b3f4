//! SQL checks on MySQL and MariaDB.

use futures_util::TryStreamExt;
use lockhouse_core::Owner;
use lockhouse_stores::mysql_options;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{ConnectOptions, Either, Executor, Row, Statement, raw_sql};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::asking::{ANSWER, CONNECT, FRESH, Said, Trouble, takes_one, within};

/// The server has the same timeouts, so that an abandoned query does not go on there. The comments
/// contain SQL that only one of the two databases executes.
const SESSION: &str = "SET SESSION lock_wait_timeout=5, innodb_lock_wait_timeout=5 \
    /*!50708 , max_execution_time=5000 */ /*M! , max_statement_time=5 */";

pub(super) struct MySqlCheck {
    options: MySqlConnectOptions,
    /// The connection, and when it was last used.
    idle: Mutex<Option<(MySqlConnection, Instant)>>,
}

impl MySqlCheck {
    /// A check of the URL whose part from `//` on is `rest`.
    pub(super) fn new(rest: &str) -> Result<Self, Trouble> {
        let options = mysql_options(&format!("mysql:{rest}"))?;
        Ok(Self {
            // Keep the server's session settings: the query is the operator's own SQL.
            options: options
                .pipes_as_concat(false)
                .no_engine_substitution(false)
                .timezone(None)
                .disable_statement_logging(),
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

    async fn connect(&self, query: &str) -> Result<MySqlConnection, Trouble> {
        let mut connection = self.options.connect().await?;
        connection.execute(raw_sql(SESSION)).await?;
        let prepared = connection.prepare(query).await?;
        takes_one(
            prepared
                .parameters()
                .map_or(0, |parameters| match parameters {
                    Either::Left(types) => types.len(),
                    Either::Right(count) => count,
                }),
        )?;
        Ok(connection)
    }
}

async fn answer(
    connection: &mut MySqlConnection,
    query: &str,
    owner: &Owner,
) -> Result<Said, Trouble> {
    connection
        .execute(raw_sql("START TRANSACTION READ ONLY"))
        .await?;
    let asked = sqlx::query(query).bind(owner.name());
    let mut rows = asked.fetch(&mut *connection);
    let first = rows.try_next().await?;
    if first.is_some() && rows.try_next().await?.is_some() {
        return Err("the answer has more than one row".into());
    }
    drop(rows);
    connection.execute(raw_sql("ROLLBACK")).await?;
    Ok(first.map_or(Said::NoRow, |row| said(&row)))
}

fn said(row: &MySqlRow) -> Said {
    if row.len() != 1 {
        return Said::Other;
    }
    let unsigned = || i64::try_from(row.try_get::<u64, _>(0).ok()?).ok();
    let number = row.try_get::<i64, _>(0).ok().or_else(unsigned);
    number.map_or(Said::Other, Said::One)
}
