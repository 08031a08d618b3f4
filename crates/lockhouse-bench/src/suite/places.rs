//! Where the databases are.

use std::path::{Path, PathBuf};

use url::Url;

use crate::Failed;

/// Which database, by what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Place {
    MySql,
    MariaDb,
    Postgres,
    Sqlite,
    Redis,
    Etcd,
}

/// The addresses of the databases. Contests without their database are skipped.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Places {
    pub mysql: Option<String>,
    pub mariadb: Option<String>,
    pub postgres: Option<String>,
    pub redis: Option<String>,
    pub etcd: Option<String>,
    /// The program, for what is measured on a server process.
    pub lockhouse: Option<PathBuf>,
}

impl Places {
    /// Nothing that stays on this machine is encrypted: Redis and etcd speak plainly too.
    pub(super) fn url(&self, place: Place) -> Result<String, Failed> {
        let url = match place {
            Place::MySql => &self.mysql,
            Place::MariaDb => &self.mariadb,
            Place::Postgres => &self.postgres,
            Place::Redis => &self.redis,
            Place::Etcd => &self.etcd,
            Place::Sqlite => return Ok("sqlite:".to_owned()),
        };
        let url = url.as_deref();
        let url = url.ok_or_else(|| format!("the URL of {place:?} was not given"))?;
        let mut url = Url::parse(url)?;
        if matches!(place, Place::MySql | Place::MariaDb) {
            url.set_query(Some("ssl-mode=disabled"));
        }
        Ok(url.into())
    }

    /// The program to serve with.
    pub(super) fn lockhouse(&self) -> Result<&Path, Failed> {
        let program = self.lockhouse.as_deref();
        Ok(program.ok_or("there is no lockhouse program to serve with")?)
    }
}
