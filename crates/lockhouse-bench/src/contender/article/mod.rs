//! The usual semaphore on a database, as articles describe it. Every acquire and every release has its own transactions.
//!
//! An acquire looks for its id and begins a transaction. It locks the semaphores in the order of their names, and sums the
//! live permits of each by an index on semaphore and state. Then it inserts the request and its permits, and commits. A
//! release looks for its id, and marks the request and its permits by two updates, each with a separate commit. Both are
//! tried again after a deadlock or a lock timeout: three attempts in all. Each client has a connection, on which every
//! statement stays prepared.

mod mysql;
mod postgres;
mod rules;

use async_trait::async_trait;
use url::Url;

use super::database::is_postgres;
use super::{Client, Contender, settings};
use crate::Failed;
use crate::measured::Server;
use crate::shape::Shape;
use rules::name;

/// Rows in one INSERT while what was before is made.
const ROWS: u32 = 1_000;

const DROP: &str = "DROP TABLE IF EXISTS article_permit, article_request, article_semaphore";

/// The article's algorithm, on MySQL, MariaDB or PostgreSQL.
#[derive(Debug)]
pub(super) struct Article {
    url: String,
    postgres: bool,
}

impl Article {
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
}

#[async_trait]
impl Contender for Article {
    fn name(&self) -> String {
        "article".into()
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        let tables = match self.postgres {
            true => postgres::TABLES.as_slice(),
            false => mysql::TABLES.as_slice(),
        };
        let mut statements = vec![DROP.to_owned()];
        statements.extend(tables.iter().map(|table| (*table).to_owned()));
        statements.extend(semaphores(shape));
        statements.extend(before(shape));
        self.execute(&statements).await
    }

    async fn client(&self, _: usize) -> Result<Box<dyn Client>, Failed> {
        if self.postgres {
            return Ok(Box::new(postgres::Article::connect(&self.url).await?));
        }
        Ok(Box::new(mysql::Article::connect(&self.url).await?))
    }

    async fn server(&self) -> Result<Server, Failed> {
        settings::of(&self.url).await
    }

    async fn clear(&self) -> Result<(), Failed> {
        self.execute(&[DROP.to_owned()]).await
    }
}

impl Article {
    async fn execute(&self, statements: &[String]) -> Result<(), Failed> {
        if self.postgres {
            postgres::execute(&self.url, statements).await
        } else {
            mysql::execute(&self.url, statements).await
        }
    }
}

fn semaphores(shape: &Shape) -> Vec<String> {
    let capacity = shape.capacity();
    let row = |i: u32| format!("({},'{}',{capacity})", i + 1, name(i as usize));
    let rows = u32::try_from(shape.semaphores).unwrap_or(u32::MAX);
    inserts("article_semaphore (id,name,capacity)", rows, row)
}

/// The held and the ended requests from before the run, with ids that the run does not reach.
fn before(shape: &Shape) -> Vec<String> {
    let state = |i| {
        if i < shape.held {
            "ACQUIRED"
        } else {
            "RELEASED"
        }
    };
    let id = |i| u64::from(i) + (1 << 40);
    let request = |i| format!("({},'before-{i}','{}',CURRENT_TIMESTAMP)", id(i), state(i));
    let permit = |i: u32| {
        let semaphore = i as usize % shape.semaphores + 1;
        format!("({},{semaphore},1,'{}')", id(i), state(i))
    };
    let rows = shape.held + shape.ended;
    let mut statements = inserts(
        "article_request (id,external_id,state,created_at)",
        rows,
        request,
    );
    let into = "article_permit (request_id,semaphore_id,permits,state)";
    statements.extend(inserts(into, rows, permit));
    statements
}

fn inserts(into: &str, rows: u32, row: impl Fn(u32) -> String) -> Vec<String> {
    let piece = |from: u32| {
        let to = rows.min(from.saturating_add(ROWS));
        let values: Vec<_> = (from..to).map(&row).collect();
        format!("INSERT INTO {into} VALUES {}", values.join(","))
    };
    (0..rows).step_by(ROWS as usize).map(piece).collect()
}
