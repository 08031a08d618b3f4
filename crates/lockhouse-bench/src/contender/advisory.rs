//! PostgreSQL's session locks, `pg_advisory_lock` and `pg_advisory_unlock`. Nothing is written, and a lock ends with its
//! connection. Each client has a connection, which it keeps while it holds, and a separate lock, so no client waits.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::{Client, Contender, Failure, settings};
use crate::Failed;
use crate::measured::Server;
use crate::shape::{Ask, Shape};

/// Locks of PostgreSQL's own.
#[derive(Debug)]
pub(super) struct Advisory {
    url: String,
}

struct AdvisoryClient {
    connection: PgConnection,
    key: i64,
}

impl Advisory {
    /// On the database of `url`.
    pub(super) fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }
}

#[async_trait]
impl Contender for Advisory {
    fn name(&self) -> String {
        "pg_advisory_lock".into()
    }

    async fn prepare(&self, _: &Shape) -> Result<(), Failed> {
        Ok(())
    }

    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed> {
        Ok(Box::new(AdvisoryClient {
            connection: PgConnection::connect(&self.url).await?,
            key: i64::try_from(number)?,
        }))
    }

    async fn server(&self) -> Result<Server, Failed> {
        settings::of(&self.url).await
    }

    async fn clear(&self) -> Result<(), Failed> {
        Ok(())
    }
}

impl AdvisoryClient {
    async fn call(&mut self, sql: &'static str) -> Result<(), Failure> {
        let call = sqlx::query(sql).bind(self.key);
        let called = call.execute(&mut self.connection).await;
        called
            .map(drop)
            .map_err(|error| Failure::new("error", error))
    }
}

#[async_trait]
impl Client for AdvisoryClient {
    async fn acquire(&mut self, _: &Ask<'_>) -> Result<(), Failure> {
        self.call("SELECT pg_advisory_lock($1)").await
    }

    async fn release(&mut self) -> Result<(), Failure> {
        self.call("SELECT pg_advisory_unlock($1)").await
    }
}
