//! A database of its own on a server, made anew and dropped.

use sqlx::{Connection, Executor, MySqlConnection, PgConnection};
use url::Url;

use crate::Failed;

/// A database, or a file, that is there for one benchmark.
#[derive(Debug)]
pub struct Database {
    url: String,
    server: Option<Url>,
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// What `url` names if that is a database; a new one if it names none, or a server.
    /// PostgreSQL's database `postgres` counts as none, as one can't connect without.
    ///
    /// # Errors
    /// When it can't be made.
    pub async fn at(url: &str) -> Result<Self, Failed> {
        if url == "sqlite:" {
            let folder = tempfile::tempdir()?;
            let file = folder.path().join("bench.db");
            return Ok(Self {
                url: format!("sqlite:{}", file.display()),
                server: None,
                _folder: Some(folder),
            });
        }
        match Url::parse(url) {
            Ok(server) if names_a_server(&server) => Self::new_on(server).await,
            _ => Ok(Self {
                url: url.to_owned(),
                server: None,
                _folder: None,
            }),
        }
    }

    async fn new_on(server: Url) -> Result<Self, Failed> {
        let name = format!("lockhouse_bench_{:016x}", fastrand::u64(..));
        execute(&server, &format!("CREATE DATABASE {name}")).await?;
        let mut url = server.clone();
        url.set_path(&name);
        Ok(Self {
            url: url.into(),
            server: Some(server),
            _folder: None,
        })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is there for this alone.
    pub fn is_new(&self) -> bool {
        self.server.is_some() || self._folder.is_some()
    }

    /// Drops it, if it was made.
    ///
    /// # Errors
    /// When the server won't.
    pub async fn clear(self) -> Result<(), Failed> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let name = self.url.rsplit_once('/').map_or("", |(_, path)| path);
        let name = name.split('?').next().unwrap_or_default();
        let force = if is_postgres(server) {
            " WITH (FORCE)"
        } else {
            ""
        };
        execute(server, &format!("DROP DATABASE {name}{force}")).await
    }
}

fn names_a_server(url: &Url) -> bool {
    match url.scheme() {
        "mysql" | "mariadb" => url.path().len() <= 1,
        "postgres" | "postgresql" => matches!(url.path(), "" | "/" | "/postgres"),
        _ => false,
    }
}

pub(super) fn is_postgres(url: &Url) -> bool {
    url.scheme().starts_with("postgres")
}

async fn execute(server: &Url, sql: &str) -> Result<(), Failed> {
    if is_postgres(server) {
        let mut connection = PgConnection::connect(server.as_str()).await?;
        Executor::execute(&mut connection, sql).await?;
        connection.close().await?;
    } else {
        let mut connection = MySqlConnection::connect(server.as_str()).await?;
        Executor::execute(&mut connection, sql).await?;
        connection.close().await?;
    }
    Ok(())
}
