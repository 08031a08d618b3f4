//! A client of a strategy: its connection, its clock, and its last fence.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::meet::Meet;
use super::sql::{Sql, Trouble};

/// A client of a strategy.
#[derive(Debug)]
pub struct At {
    pub(super) sql: Sql,
    /// How far its clock is off.
    pub(super) clock_off_us: i64,
    /// The point at which it waits for other clients.
    pub(super) meet: Arc<Meet>,
    /// Its other names in the database, by the id of the ask.
    pub(super) aliases: HashMap<String, String>,
    /// The fence of its last grant, if the strategy has fences.
    pub(super) fence: Option<i64>,
}

impl At {
    /// A client with its own connection and clock, which waits for others at `meet`.
    ///
    /// # Errors
    /// When the database can't be reached.
    pub async fn open(url: &str, clock_off_us: i64, meet: &Arc<Meet>) -> Result<Self, Trouble> {
        Ok(Self {
            sql: Sql::open(url).await?,
            clock_off_us,
            meet: Arc::clone(meet),
            aliases: HashMap::new(),
            fence: None,
        })
    }

    /// Its connection.
    pub fn sql(&mut self) -> &mut Sql {
        &mut self.sql
    }

    /// The time by this client's own clock, in microseconds.
    pub(super) fn own_now_us(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let us = now.unwrap_or_default().as_micros();
        i64::try_from(us).unwrap_or(i64::MAX) + self.clock_off_us
    }

    /// Ends the transaction, and returns the result.
    pub(super) async fn finish(&mut self, done: Result<bool, Trouble>) -> Result<bool, Trouble> {
        let end = if matches!(done, Ok(true)) {
            "COMMIT"
        } else {
            "ROLLBACK"
        };
        let ended = self.sql.run(end, &[]).await;
        let done = done?;
        ended.map(|_| done)
    }
}
