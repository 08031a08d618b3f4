//! Locks that people write by hand, each as short as in production code.
//!
//! Each strategy has the race of its original, at the same point. A [`Meet`] only delays the clients at that point until all
//! of them are there, so that the race shows in seconds instead of months.

mod callers_order;
mod client;
mod client_clock;
mod contract;
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

use std::time::Duration;

use crate::history::{Answer, Asked, Held, Refused};

pub use client::At;
pub use contract::Strategy;
pub use meet::Meet;
pub use sql::{Server, Sql, Trouble};

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

/// Creates the tables of `strategy` again.
///
/// # Errors
/// When the database refuses.
pub async fn prepare(sql: &mut Sql, strategy: &dyn Strategy) -> Result<(), Trouble> {
    clear(sql).await?;
    for table in strategy.tables() {
        sql.run(table, &[]).await?;
    }
    Ok(())
}

/// Waits until the node at `url` has the row of `semaphore`, which was written through another node.
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

/// Drops the tables of all strategies, if they exist.
///
/// # Errors
/// When the database refuses.
pub async fn clear(sql: &mut Sql) -> Result<(), Trouble> {
    for table in TABLES {
        let drop = format!("DROP TABLE IF EXISTS {table}");
        sql.run(&drop, &[]).await?;
    }
    Ok(())
}

/// The answer to an acquire of `at`.
pub(crate) fn granted(at: &At, asked: &Asked, done: Result<bool, Trouble>) -> Answer {
    let names = asked.permits.iter().map(|(name, _)| name.clone());
    match done {
        Ok(true) => Answer::Granted {
            permits: names
                .map(|semaphore| Held {
                    semaphore,
                    count: 1,
                    fence: at.fence,
                    slots: None,
                })
                .collect(),
            now: true,
        },
        Ok(false) => Answer::Refused(Refused::Exhausted(names.collect())),
        Err(trouble) => refused(trouble),
    }
}

/// The answer to a renewal.
pub(crate) fn renewed(done: Result<bool, Trouble>) -> Answer {
    match done {
        Ok(true) => Answer::Renewed,
        Ok(false) => Answer::Refused(Refused::Ended("expired".into())),
        Err(trouble) => refused(trouble),
    }
}

/// The answer to a release.
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
        // As far as the client can tell, the call may have been done.
        Trouble::Duplicate | Trouble::Other(_) => Answer::Unknown,
    }
}
