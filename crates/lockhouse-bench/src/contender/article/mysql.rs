//! The article's algorithm on MySQL and MariaDB, at their default isolation.

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Connection, Error, Executor, MySqlConnection};

use super::rules::{ATTEMPTS, name};
use crate::Failed;
use crate::contender::{Client, Failure};
use crate::shape::Ask;

pub(super) const TABLES: [&str; 3] = [
    "CREATE TABLE article_semaphore (
       id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
       name VARCHAR(255) NOT NULL UNIQUE,
       capacity INT NOT NULL
     ) ENGINE=InnoDB",
    "CREATE TABLE article_request (
       id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
       external_id VARCHAR(255) NOT NULL UNIQUE,
       state VARCHAR(16) NOT NULL,
       created_at TIMESTAMP NOT NULL,
       released_at TIMESTAMP NULL
     ) ENGINE=InnoDB AUTO_INCREMENT=1",
    "CREATE TABLE article_permit (
       id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
       request_id BIGINT NOT NULL,
       semaphore_id BIGINT NOT NULL,
       permits INT NOT NULL,
       state VARCHAR(16) NOT NULL,
       KEY request (request_id),
       KEY held (semaphore_id, state)
     ) ENGINE=InnoDB",
];

const DEADLOCK: u16 = 1213;
const LOCK_TIMEOUT: u16 = 1205;

pub(super) struct Article {
    connection: MySqlConnection,
    held: Option<String>,
    retries: BTreeMap<String, u64>,
    /// By how many semaphores an ask is on.
    statements: BTreeMap<usize, Statements>,
}

#[derive(Clone)]
struct Statements {
    lock: String,
    sum: String,
    insert: String,
}

impl Statements {
    fn of(semaphores: usize) -> Self {
        let marks = vec!["?"; semaphores].join(",");
        let rows = vec!["(?,?,?,'ACQUIRED')"; semaphores].join(",");
        Self {
            lock: format!(
                "SELECT id,capacity FROM article_semaphore WHERE name IN ({marks}) \
                 ORDER BY name FOR UPDATE"
            ),
            sum: format!(
                "SELECT semaphore_id,CAST(SUM(permits) AS SIGNED) FROM article_permit \
                 WHERE semaphore_id IN ({marks}) AND state='ACQUIRED' GROUP BY semaphore_id"
            ),
            insert: format!(
                "INSERT INTO article_permit (request_id,semaphore_id,permits,state) VALUES {rows}"
            ),
        }
    }
}

impl Article {
    pub(super) async fn connect(url: &str) -> Result<Self, Failed> {
        Ok(Self {
            connection: MySqlConnection::connect(url).await?,
            held: None,
            retries: BTreeMap::new(),
            statements: BTreeMap::new(),
        })
    }

    /// Whether there was room.
    async fn grant(&mut self, ask: &Ask<'_>) -> Result<bool, Error> {
        let connection = &mut self.connection;
        let known: Option<(i64, String)> =
            sqlx::query_as("SELECT id,state FROM article_request WHERE external_id=?")
                .bind(ask.external_id)
                .fetch_optional(&mut *connection)
                .await?;
        if let Some((_, state)) = known {
            return Ok(state == "ACQUIRED");
        }
        let several = ask.semaphores.len();
        let statements = self.statements.entry(several);
        let statements = statements.or_insert_with(|| Statements::of(several));
        Executor::execute(&mut *connection, "START TRANSACTION").await?;
        let mut lock = sqlx::query_as(&statements.lock);
        for semaphore in ask.semaphores {
            lock = lock.bind(name(*semaphore));
        }
        let locked: Vec<(i64, i32)> = lock.fetch_all(&mut *connection).await?;
        let mut sum = sqlx::query_as(&statements.sum);
        for (id, _) in &locked {
            sum = sum.bind(id);
        }
        let held: Vec<(i64, i64)> = sum.fetch_all(&mut *connection).await?;
        let held: BTreeMap<i64, i64> = held.into_iter().collect();
        let fits = |(id, capacity): &(i64, i32)| {
            held.get(id).unwrap_or(&0) + i64::from(ask.count) <= i64::from(*capacity)
        };
        if !locked.iter().all(fits) {
            Executor::execute(&mut *connection, "ROLLBACK").await?;
            return Ok(false);
        }
        let inserted = sqlx::query(
            "INSERT INTO article_request (external_id,state,created_at) \
             VALUES (?,'ACQUIRED',CURRENT_TIMESTAMP)",
        )
        .bind(ask.external_id)
        .execute(&mut *connection)
        .await?;
        let mut insert = sqlx::query(&statements.insert);
        for (id, _) in &locked {
            insert = insert
                .bind(inserted.last_insert_id())
                .bind(id)
                .bind(ask.count);
        }
        insert.execute(&mut *connection).await?;
        Executor::execute(&mut *connection, "COMMIT").await?;
        Ok(true)
    }

    async fn end(&mut self, external_id: &str) -> Result<bool, Error> {
        let connection = &mut self.connection;
        let known: Option<(i64, String)> =
            sqlx::query_as("SELECT id,state FROM article_request WHERE external_id=?")
                .bind(external_id)
                .fetch_optional(&mut *connection)
                .await?;
        let Some((id, _)) = known else {
            return Ok(false);
        };
        sqlx::query(
            "UPDATE article_request SET state='RELEASED',released_at=CURRENT_TIMESTAMP WHERE id=?",
        )
        .bind(id)
        .execute(&mut *connection)
        .await?;
        sqlx::query("UPDATE article_permit SET state='RELEASED' WHERE request_id=?")
            .bind(id)
            .execute(&mut *connection)
            .await?;
        Ok(true)
    }

    /// Takes note of an error that may be tried again; else it is the caller's.
    async fn again(&mut self, error: Error, attempt: u32) -> Result<(), Failure> {
        let kind = kind(&error);
        // After a deadlock the transaction is gone, after a lock timeout it is still there.
        let _ = Executor::execute(&mut self.connection, "ROLLBACK").await;
        if attempt == ATTEMPTS || !matches!(code(&error), Some(DEADLOCK | LOCK_TIMEOUT)) {
            return Err(Failure::new(kind, error));
        }
        *self.retries.entry(kind).or_default() += 1;
        Ok(())
    }
}

#[async_trait]
impl Client for Article {
    async fn acquire(&mut self, ask: &Ask<'_>) -> Result<(), Failure> {
        for attempt in 1.. {
            match self.grant(ask).await {
                Ok(true) => break,
                Ok(false) => return Err(Failure::new("exhausted", "no room now")),
                Err(error) => self.again(error, attempt).await?,
            }
        }
        self.held = Some(ask.external_id.to_owned());
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let external_id = self.held.take().unwrap_or_default();
        for attempt in 1.. {
            match self.end(&external_id).await {
                Ok(true) => break,
                Ok(false) => return Err(Failure::new("unknown", "the request is not known")),
                Err(error) => self.again(error, attempt).await?,
            }
        }
        Ok(())
    }

    fn retries(&self) -> BTreeMap<String, u64> {
        self.retries.clone()
    }
}

pub(super) async fn execute(url: &str, statements: &[String]) -> Result<(), Failed> {
    let mut connection = MySqlConnection::connect(url).await?;
    for statement in statements {
        Executor::execute(&mut connection, statement.as_str()).await?;
    }
    connection.close().await?;
    Ok(())
}

fn code(error: &Error) -> Option<u16> {
    let error = error.as_database_error()?;
    Some(error.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

fn kind(error: &Error) -> String {
    match code(error) {
        Some(DEADLOCK) => format!("deadlock ({DEADLOCK})"),
        Some(LOCK_TIMEOUT) => format!("lock timeout ({LOCK_TIMEOUT})"),
        Some(code) => format!("error {code}"),
        None => "connection".into(),
    }
}
