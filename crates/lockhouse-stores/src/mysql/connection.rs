//! One connection: its session, and how a script runs on it.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use lockhouse_core::store::{Error, Kind};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{ConnectOptions as _, Connection as _, Either, Executor as _};
use tokio::time::{Instant, timeout_at};

use super::error::Trouble;
use super::rows;
use super::sql::Script;

/// What every session is set to, in one round trip.
///
/// What looks like comments is SQL for one of the two. With it an IN of very many values stays a
/// range, which locks just these rows and in their order: MySQL would give that up for want of
/// memory, MariaDB could make a subquery of it.
const SESSION: &str = "SET NAMES utf8mb4, autocommit=1, time_zone='+00:00', \
    innodb_lock_wait_timeout=5, lock_wait_timeout=5, \
    sql_mode='STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
    NO_ENGINE_SUBSTITUTION' \
    /*!50709 , range_optimizer_max_mem_size=0 */ \
    /*M! , in_predicate_conversion_threshold=0, optimizer_max_sel_arg_weight=0 */;\
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\
    SELECT @@max_allowed_packet";

/// How long a ping may take.
const PING: Duration = Duration::from_secs(1);

/// The rows that each statement of a script answered, in their order.
pub(super) type Answers = Vec<Vec<MySqlRow>>;

/// A script that did not get through, after so many of its statements had.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) finished: usize,
    pub(super) trouble: Trouble,
}

/// A connection whose session is set.
#[derive(Debug)]
pub(super) struct Connection {
    driver: MySqlConnection,
    max_packet: usize,
}

impl Connection {
    /// Connects and sets the session.
    pub(super) async fn open(options: &MySqlConnectOptions, at: &str) -> Result<Self, Error> {
        let context = format!("connecting to {at}");
        let driver = options.connect().await;
        let driver = driver.map_err(|error| Trouble::Driver(error).before_commit(&context))?;
        let mut connection = Self {
            driver,
            max_packet: usize::MAX,
        };
        let answers = connection.answers(SESSION).await;
        let answers = answers.map_err(|failed| failed.trouble.before_commit(&context))?;
        connection.max_packet = match answers.last().map(Vec::as_slice) {
            Some([row]) => rows::number(row)?,
            _ => return Err(Error::new(Kind::Unavailable, context)),
        };
        Ok(connection)
    }

    /// Whether the server still answers here.
    pub(super) async fn is_alive(&mut self) -> bool {
        let deadline = Instant::now() + PING;
        matches!(timeout_at(deadline, self.driver.ping()).await, Ok(Ok(())))
    }

    /// Whether the server takes a packet as large as `script`. A larger one would cost the
    /// connection, and look as if the server had gone.
    pub(super) fn takes(&self, script: &Script) -> bool {
        script.text().len() < self.max_packet
    }

    /// Sends `script` in one packet, and reads all its answers until `deadline`.
    pub(super) async fn run(
        &mut self,
        script: &Script,
        deadline: Instant,
    ) -> Result<Answers, Failed> {
        let started = Instant::now();
        let answers = timeout_at(deadline, self.answers(script.text())).await;
        let answers = answers.unwrap_or_else(|_| {
            Err(Failed {
                finished: 0,
                trouble: Trouble::Late(started.elapsed()),
            })
        })?;
        if answers.len() == script.statements() {
            return Ok(answers);
        }
        let problem = format!(
            "{} answers to {} statements",
            answers.len(),
            script.statements()
        );
        Err(Failed {
            finished: answers.len(),
            trouble: Trouble::Driver(sqlx::Error::Protocol(problem)),
        })
    }

    async fn answers(&mut self, sql: &str) -> Result<Answers, Failed> {
        let mut answers = Answers::new();
        let mut rows = Vec::new();
        let mut stream = self.driver.fetch_many(sqlx::raw_sql(sql));
        loop {
            match stream.try_next().await {
                Ok(Some(Either::Right(row))) => rows.push(row),
                Ok(Some(Either::Left(_end))) => answers.push(std::mem::take(&mut rows)),
                Ok(None) => return Ok(answers),
                Err(error) => {
                    return Err(Failed {
                        finished: answers.len(),
                        trouble: Trouble::Driver(error),
                    });
                }
            }
        }
    }
}
