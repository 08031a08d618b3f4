//! A separate database on a server, which is created and dropped.

use sqlx::{Connection, Executor, MySqlConnection, PgConnection};
use url::Url;

use super::redis;
use crate::Failed;

/// A database, or a file, that is there for one benchmark.
#[derive(Debug)]
pub struct Database {
    url: String,
    server: Option<Url>,
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// The database that `url` names, or a new one if it names only a server. PostgreSQL's database
    /// `postgres` does not count, since every connection needs one.
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
            // The keys of a namespace, beside those of others.
            Ok(mut server) if is_redis(&server) && server.query().is_none() => {
                let namespace = format!("lockhouse_bench_{:016x}", fastrand::u64(..));
                let plain = server.clone();
                server.set_query(Some(&format!("namespace={namespace}")));
                Ok(Self {
                    url: server.into(),
                    server: Some(plain),
                    _folder: None,
                })
            }
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

    /// Whether all that a contender leaves goes with it. A contender on Redis changes settings of the server besides.
    pub fn is_new(&self) -> bool {
        let server = self.server.as_ref();
        server.is_some_and(|server| !is_redis(server)) || self._folder.is_some()
    }

    /// Drops it, if it was made.
    ///
    /// # Errors
    /// When the server won't.
    pub async fn clear(self) -> Result<(), Failed> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        if is_redis(server) {
            let namespace = self.url.rsplit_once('=').map_or("", |(_, name)| name);
            return redis::delete(server.as_str(), &format!("{{{namespace}}}:*")).await;
        }
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

fn is_redis(url: &Url) -> bool {
    url.scheme().starts_with("redis")
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
