//! A statement on a database server, on a separate connection.

use sqlx::{Connection, Executor, MySqlConnection, PgConnection};

/// Whether a URL names a PostgreSQL server.
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres")
}

/// Runs `statement` on a separate connection to `server`.
///
/// # Panics
/// If the statement fails.
pub(crate) async fn run(server: &str, statement: &str) {
    try_run(server, statement).await.unwrap();
}

/// The same, for a statement that may fail.
pub(crate) async fn try_run(server: &str, statement: &str) -> Result<(), sqlx::Error> {
    if is_postgres(server) {
        let mut connection = PgConnection::connect(server).await?;
        // A test may have set the server's own limits short. Dropping a database may wait for autovacuum.
        let unlimited = "SET lock_timeout=0; SET statement_timeout=0; \
            SELECT set_config('transaction_timeout','0',false) \
            WHERE current_setting('transaction_timeout',true) IS NOT NULL";
        connection.execute(unlimited).await?;
        connection.execute(statement).await?;
        connection.close().await
    } else {
        let mut connection = MySqlConnection::connect(server).await?;
        // A test may have set the server's own limit short.
        connection
            .execute("SET SESSION /*M! max_statement_time=0, */ lock_wait_timeout=60")
            .await?;
        connection.execute(statement).await?;
        connection.close().await
    }
}
