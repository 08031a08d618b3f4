//! The locks that people write by hand, each as short as it is found in the wild.
//!
//! Each has its race where it has it in the wild; a [`Meet`] only holds who gets there until the
//! others are there too, so that it is seen in seconds rather than in months.

mod callers_order;
mod client_clock;
mod counted;
mod for_update;
mod fresh_id;
mod insert;
mod insert_ttl;
mod meet;
mod no_unique_key;
mod one_statement;
mod serial_fence;
mod sql;
mod stale_count;
mod summed;
mod unlocked_count;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::history::{Answer, Asked, Held, Promise, Refused};

pub use meet::Meet;
pub use sql::{Server, Sql, Trouble};

/// A way to hold a permit by SQL.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What it does, in a line.
    fn about(&self) -> &'static str;

    /// The promise that it is here for.
    fn breaks(&self) -> Promise;

    /// Where it can be written like that.
    fn runs_on(&self, server: Server) -> bool {
        let _ = server;
        true
    }

    /// Whether it takes several semaphores at once.
    fn takes_several(&self) -> bool {
        false
    }

    /// Whether it can hand out more than one permit.
    fn counts(&self) -> bool {
        true
    }

    /// Whether what it grants has a time to live.
    fn expires(&self) -> bool {
        false
    }

    /// Whether it takes several nodes of a cluster to see what is wrong with it.
    fn takes_nodes(&self) -> bool {
        false
    }

    /// Statements that make what it needs.
    fn tables(&self) -> &'static [&'static str];

    /// Makes a semaphore known.
    async fn define(&self, at: &mut At, semaphore: &str, capacity: i64) -> Result<(), Trouble> {
        let sql = "INSERT INTO lockhouse_lab_semaphore (name, capacity) VALUES (?, ?)";
        at.sql.run(sql, &[&semaphore, &capacity]).await.map(drop)
    }

    /// Takes what is asked for, if there is room.
    async fn acquire(&self, at: &mut At, asked: &Asked) -> Result<bool, Trouble>;

    /// Pushes the expiry of what `id` holds; whether it was held.
    async fn renew(&self, at: &mut At, id: &str, ttl_us: i64) -> Result<bool, Trouble> {
        let _ = (at, id, ttl_us);
        Ok(false)
    }

    /// Gives back what `id` holds; whether there was something.
    async fn release(&self, at: &mut At, id: &str) -> Result<bool, Trouble>;

    /// What a job beside it does now and then.
    async fn sweep(&self, at: &mut At) -> Result<(), Trouble> {
        let _ = at;
        Ok(())
    }
}

/// All of them.
pub const ALL: [&dyn Strategy; 12] = [
    &insert::Insert,
    &insert_ttl::InsertTtl,
    &for_update::ForUpdate,
    &unlocked_count::UnlockedCount,
    &stale_count::StaleCount,
    &one_statement::OneStatement,
    &callers_order::CallersOrder,
    &no_unique_key::NoUniqueKey,
    &fresh_id::FreshId,
    &client_clock::ClientClock,
    &summed::Summed,
    &serial_fence::SerialFence,
];

/// The tables of all of them.
const TABLES: [&str; 5] = [
    "lockhouse_lab_semaphore",
    "lockhouse_lab_permit",
    "lockhouse_lab_lock",
    "lockhouse_lab_lease",
    "lockhouse_lab_mutex",
];

/// The table of those that count.
const SEMAPHORES: &str = "CREATE TABLE lockhouse_lab_semaphore (
    name VARCHAR(190) PRIMARY KEY, capacity BIGINT NOT NULL)";

/// Makes the tables of `strategy` anew.
///
/// # Errors
/// When the database won't.
pub async fn prepare(sql: &mut Sql, strategy: &dyn Strategy) -> Result<(), Trouble> {
    clear(sql).await?;
    for table in strategy.tables() {
        sql.run(table, &[]).await?;
    }
    Ok(())
}

/// Waits until the node at `url` has what another node was told: the row of `semaphore`.
///
/// # Errors
/// When that takes too long.
pub(crate) async fn arrives(url: &str, semaphore: &str) -> Result<(), Trouble> {
    let sql = "SELECT capacity FROM lockhouse_lab_semaphore WHERE name = ?";
    let mut last = Ok(None);
    for _ in 0..500 {
        let mut node = Sql::open(url).await?;
        last = node.number(sql, &[&semaphore]).await;
        if let Ok(Some(_)) = last {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    last?;
    Err(Trouble::Other(format!(
        "{semaphore} does not arrive at another node"
    )))
}

/// Drops all tables that there may be.
///
/// # Errors
/// When the database won't.
pub async fn clear(sql: &mut Sql) -> Result<(), Trouble> {
    for table in TABLES {
        let drop = format!("DROP TABLE IF EXISTS {table}");
        sql.run(&drop, &[]).await?;
    }
    Ok(())
}

/// A client of a strategy.
#[derive(Debug)]
pub struct At {
    sql: Sql,
    /// How far its clock is off.
    clock_off_us: i64,
    /// Where it waits for others.
    meet: Arc<Meet>,
    /// What else it is called in the database, by what it was asked for.
    aliases: HashMap<String, String>,
    /// The fence of what it was granted last, where the strategy has fences.
    fence: Option<i64>,
}

impl At {
    /// A client with a connection and a clock of its own, who waits for others at `meet`.
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
    fn own_now_us(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let us = now.unwrap_or_default().as_micros();
        i64::try_from(us).unwrap_or(i64::MAX) + self.clock_off_us
    }

    /// Leaves no transaction open, and says what became of it.
    async fn finish(&mut self, done: Result<bool, Trouble>) -> Result<bool, Trouble> {
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

/// How an acquire of `at` is answered.
pub(crate) fn granted(at: &At, asked: &Asked, done: Result<bool, Trouble>) -> Answer {
    let names = asked.permits.iter().map(|(name, _)| name.clone());
    match done {
        Ok(true) => Answer::Granted {
            permits: names
                .map(|semaphore| Held {
                    semaphore,
                    count: 1,
                    fence: at.fence,
                })
                .collect(),
            now: true,
        },
        Ok(false) => Answer::Refused(Refused::Exhausted(names.collect())),
        Err(trouble) => refused(trouble),
    }
}

/// How a renewal is answered.
pub(crate) fn renewed(done: Result<bool, Trouble>) -> Answer {
    match done {
        Ok(true) => Answer::Renewed,
        Ok(false) => Answer::Refused(Refused::Ended("expired".into())),
        Err(trouble) => refused(trouble),
    }
}

/// How a release is answered.
pub(crate) fn released(done: Result<bool, Trouble>) -> Answer {
    match done {
        Ok(true) => Answer::Ended {
            now: true,
            reason: "released".into(),
        },
        Ok(false) => Answer::Refused(Refused::Other("it holds nothing".into())),
        Err(trouble) => refused(trouble),
    }
}

fn refused(trouble: Trouble) -> Answer {
    match trouble {
        Trouble::Deadlock => Answer::Refused(Refused::Deadlock),
        // It may have been done, as far as a client can tell.
        Trouble::Duplicate | Trouble::Other(_) => Answer::Unknown,
    }
}
