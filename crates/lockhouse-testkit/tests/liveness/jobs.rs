//! An application's database with a table of jobs.

use std::time::Duration;

use lockhouse::liveness::{OwnerCheck, SqlCheck, Verdict};
use lockhouse_core::Owner;
use lockhouse_testkit::place::server_url;
use rusqlite::Connection as File;
use sqlx::{Connection as _, MySqlConnection, PgConnection, raw_sql};
use tempfile::TempDir;
use tokio::time::timeout;

/// A table `jobs` with `id` and `state`, a number that may be NULL.
const TABLE: &str = "CREATE TABLE jobs (id VARCHAR(255) NOT NULL, state BIGINT);
    INSERT INTO jobs VALUES ('job-1', 1), ('job-2', 0), ('job-3', 2), ('job-4', NULL),
        ('job-5', 1), ('job-5', 1), ('O''Brien ? $1; --', 1)";

const OTHERS_ON_MYSQL: &str = "SELECT CAST(id AS UNSIGNED) FROM information_schema.processlist
    WHERE db = DATABASE() AND id <> CONNECTION_ID()";

const OTHERS_ON_POSTGRES: &str = "FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

pub(crate) enum Jobs {
    MySql { server: String, name: String },
    Postgres { server: String, name: String },
    Sqlite(TempDir),
}

/// Another session of the application.
pub(crate) enum Session {
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Sqlite(File),
}

/// Makes one test for each database.
macro_rules! on_each_database {
    ($($test:ident,)*) => {
        mod mysql {
            $(crate::jobs::on!($test, crate::jobs::Jobs::mysql("LOCKHOUSE_TEST_MYSQL_URL"));)*
        }
        mod mariadb {
            $(crate::jobs::on!($test, crate::jobs::Jobs::mysql("LOCKHOUSE_TEST_MARIADB_URL"));)*
        }
        mod postgres {
            $(crate::jobs::on!($test, crate::jobs::Jobs::postgres());)*
        }
        mod sqlite {
            $(crate::jobs::on!($test, async { Some(crate::jobs::Jobs::sqlite()) });)*
        }
    };
}

macro_rules! on {
    ($test:ident, $jobs:expr) => {
        #[tokio::test]
        async fn $test() {
            let Some(jobs) = $jobs.await else { return };
            jobs.session().await.run(crate::jobs::table()).await;
            super::$test(&jobs).await;
            jobs.clear().await;
        }
    };
}

pub(crate) use {on, on_each_database};

pub(crate) fn table() -> &'static str {
    TABLE
}

fn fresh_name() -> String {
    format!("jobs_{}", uuid::Uuid::new_v4().simple())
}

impl Jobs {
    pub(crate) async fn mysql(variable: &str) -> Option<Self> {
        let (server, name) = (server_url(variable)?, fresh_name());
        let mut session = MySqlConnection::connect(&server).await.unwrap();
        let create = format!("CREATE DATABASE {name}");
        raw_sql(&create).execute(&mut session).await.unwrap();
        Some(Self::MySql { server, name })
    }

    pub(crate) async fn postgres() -> Option<Self> {
        let (server, name) = (server_url("LOCKHOUSE_TEST_POSTGRES_URL")?, fresh_name());
        let mut session = PgConnection::connect(&server).await.unwrap();
        let create = format!("CREATE DATABASE {name}");
        raw_sql(&create).execute(&mut session).await.unwrap();
        Some(Self::Postgres { server, name })
    }

    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::MySql { server, name } | Self::Postgres { server, name } => {
                let mut url = url::Url::parse(server).unwrap();
                url.set_path(name);
                url.into()
            }
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("jobs.db").display()),
        }
    }

    /// The parameter of a query.
    pub(crate) fn parameter(&self) -> &'static str {
        match self {
            Self::Postgres { .. } => "$1",
            _ => "?",
        }
    }

    /// A check by `query`, in which `?` stands for the parameter.
    pub(crate) fn check(&self, query: &str) -> SqlCheck {
        SqlCheck::new(self.url(), query.replace('?', self.parameter())).unwrap()
    }

    pub(crate) async fn session(&self) -> Session {
        match self {
            Self::MySql { .. } => {
                Session::MySql(MySqlConnection::connect(&self.url()).await.unwrap())
            }
            Self::Postgres { .. } => {
                Session::Postgres(PgConnection::connect(&self.url()).await.unwrap())
            }
            Self::Sqlite(folder) => {
                Session::Sqlite(File::open(folder.path().join("jobs.db")).unwrap())
            }
        }
    }

    /// Keeps readers from the table, until [`unlock`](Jobs::unlock).
    pub(crate) fn lock(&self) -> &'static str {
        match self {
            Self::MySql { .. } => "LOCK TABLES jobs WRITE",
            Self::Postgres { .. } => "BEGIN; LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE",
            Self::Sqlite(_) => "BEGIN EXCLUSIVE",
        }
    }

    pub(crate) fn unlock(&self) -> &'static str {
        match self {
            Self::MySql { .. } => "UNLOCK TABLES",
            _ => "COMMIT",
        }
    }

    /// Ends all other sessions on the database. A file has none.
    pub(crate) async fn kill_the_others(&self) {
        match self.session().await {
            Session::MySql(mut session) => {
                let ids: Vec<u64> = sqlx::query_scalar(OTHERS_ON_MYSQL)
                    .fetch_all(&mut session)
                    .await
                    .unwrap();
                for id in ids {
                    // The session may have ended by itself.
                    let kill = format!("KILL {id}");
                    let _ = raw_sql(&kill).execute(&mut session).await;
                }
            }
            Session::Postgres(mut session) => {
                let kill = format!("SELECT pg_terminate_backend(pid) {OTHERS_ON_POSTGRES}");
                raw_sql(&kill).execute(&mut session).await.unwrap();
            }
            Session::Sqlite(_) => {}
        }
    }

    /// Waits until no other session on the database is at work.
    pub(crate) async fn nobody_asks(&self, patience: Duration) {
        let asking = async {
            while self.is_asked().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(patience, asking).await.expect("the question ends");
    }

    async fn is_asked(&self) -> bool {
        match self.session().await {
            Session::MySql(mut session) => {
                let asking = format!("{OTHERS_ON_MYSQL} AND command <> 'Sleep'");
                let ids: Vec<u64> = sqlx::query_scalar(&asking)
                    .fetch_all(&mut session)
                    .await
                    .unwrap();
                !ids.is_empty()
            }
            Session::Postgres(mut session) => {
                let asking = format!("SELECT pid {OTHERS_ON_POSTGRES} AND state = 'active'");
                let ids: Vec<i32> = sqlx::query_scalar(&asking)
                    .fetch_all(&mut session)
                    .await
                    .unwrap();
                !ids.is_empty()
            }
            Session::Sqlite(file) => file.execute_batch("BEGIN EXCLUSIVE; COMMIT").is_err(),
        }
    }

    /// Removes what the test left on a real server.
    pub(crate) async fn clear(self) {
        match self {
            Self::MySql { server, name } => {
                let mut session = MySqlConnection::connect(&server).await.unwrap();
                let drop = format!("DROP DATABASE {name}");
                raw_sql(&drop).execute(&mut session).await.unwrap();
            }
            Self::Postgres { server, name } => {
                let mut session = PgConnection::connect(&server).await.unwrap();
                let drop = format!("DROP DATABASE {name} WITH (FORCE)");
                raw_sql(&drop).execute(&mut session).await.unwrap();
            }
            Self::Sqlite(_) => {}
        }
    }
}

impl Session {
    pub(crate) async fn run(&mut self, statements: &str) {
        match self {
            Self::MySql(session) => {
                raw_sql(statements).execute(session).await.unwrap();
            }
            Self::Postgres(session) => {
                raw_sql(statements).execute(session).await.unwrap();
            }
            Self::Sqlite(file) => file.execute_batch(statements).unwrap(),
        }
    }
}

pub(crate) async fn verdict(check: &SqlCheck, owner: &str) -> Verdict {
    check.verdict(&Owner::parse(owner).unwrap()).await
}
