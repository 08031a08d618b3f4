//! The least that a durable acquire can cost: one autocommitted UPDATE of one row, and another for the release. Each client
//! has a connection and a separate row, so no client waits for another one's lock.

use async_trait::async_trait;
use sqlx::{Connection, Executor, MySqlConnection, PgConnection};
use url::Url;

use super::database::is_postgres;
use super::{Client, Contender, Failure, settings};
use crate::Failed;
use crate::measured::Server;
use crate::shape::{Ask, Shape};

/// One row, one commit; on MySQL, MariaDB or PostgreSQL.
#[derive(Debug)]
pub(super) struct Floor {
    url: String,
    postgres: bool,
}

enum Connected {
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

struct FloorClient {
    connection: Connected,
    row: i32,
}

impl Floor {
    /// On the database of `url`.
    ///
    /// # Errors
    /// When the URL makes no sense.
    pub(super) fn at(url: &str) -> Result<Self, Failed> {
        let parsed = Url::parse(url)?;
        Ok(Self {
            url: url.replacen("mariadb://", "mysql://", 1),
            postgres: is_postgres(&parsed),
        })
    }

    async fn connect(&self) -> Result<Connected, Failed> {
        if self.postgres {
            return Ok(Connected::Postgres(PgConnection::connect(&self.url).await?));
        }
        Ok(Connected::MySql(MySqlConnection::connect(&self.url).await?))
    }
}

#[async_trait]
impl Contender for Floor {
    fn name(&self) -> String {
        "floor".into()
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        let mut connection = self.connect().await?;
        connection.execute("DROP TABLE IF EXISTS floor").await?;
        connection
            .execute("CREATE TABLE floor (id INT PRIMARY KEY, n INT NOT NULL)")
            .await?;
        let rows: Vec<_> = (0..shape.clients).map(|id| format!("({id},0)")).collect();
        connection
            .execute(&format!("INSERT INTO floor VALUES {}", rows.join(",")))
            .await
    }

    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed> {
        Ok(Box::new(FloorClient {
            connection: self.connect().await?,
            row: i32::try_from(number)?,
        }))
    }

    async fn server(&self) -> Result<Server, Failed> {
        settings::of(&self.url).await
    }

    async fn clear(&self) -> Result<(), Failed> {
        self.connect().await?.execute("DROP TABLE floor").await
    }
}

impl Connected {
    async fn execute(&mut self, sql: &str) -> Result<(), Failed> {
        match self {
            Connected::MySql(connection) => {
                Executor::execute(connection, sql).await?.rows_affected()
            }
            Connected::Postgres(connection) => {
                Executor::execute(connection, sql).await?.rows_affected()
            }
        };
        Ok(())
    }
}

impl FloorClient {
    async fn write(&mut self) -> Result<(), Failure> {
        let written = match &mut self.connection {
            Connected::MySql(connection) => {
                let update = sqlx::query("UPDATE floor SET n=n+1 WHERE id=?");
                update.bind(self.row).execute(connection).await.map(drop)
            }
            Connected::Postgres(connection) => {
                let update = sqlx::query("UPDATE floor SET n=n+1 WHERE id=$1");
                update.bind(self.row).execute(connection).await.map(drop)
            }
        };
        written.map_err(|error| Failure::new("error", error))
    }
}

#[async_trait]
impl Client for FloorClient {
    async fn acquire(&mut self, _: &Ask<'_>) -> Result<(), Failure> {
        self.write().await
    }

    async fn release(&mut self) -> Result<(), Failure> {
        self.write().await
    }
}
