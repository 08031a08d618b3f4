//! A store of any kind that behaves as if it had no locks.
//!
//! Without locks, a transaction loses the commits of others between its read and its write. So this layer reads the
//! semaphores' rows before a batch, without locks. After the batch it writes the rows as they would be if only the batch had
//! changed them since that read.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Error, Lockhouse};
use lockhouse_core::store::{self, Batch, FullStore, Layer};
use lockhouse_core::{Outcome, Reply, SemaphoreRow};
use tokio::time::sleep;

use super::Flaw;
use crate::redis;
use crate::statement::try_run;

/// The prefix of a URL that opens a store without its locks.
pub const UNLOCKED: &str = "unlocked+";

/// The pause between reading and writing the rows.
const RACE: Duration = Duration::from_millis(2);

/// A client of the store, or the server, at `url`: without its locks if the URL begins with [`UNLOCKED`], and with a
/// [`Flaw`] if it begins with the prefix of one.
///
/// # Errors
/// Those of [`Lockhouse::connect`].
pub async fn connect(url: &str) -> Result<Lockhouse, Error> {
    if let Some((flaw, url)) = Flaw::of(url) {
        let store = lockhouse_stores::open(url)?;
        store.migrate().await?;
        return Ok(Lockhouse::with_store(flaw.over(store)));
    }
    let Some(url) = url.strip_prefix(UNLOCKED) else {
        return Lockhouse::connect(url).await;
    };
    let store = lockhouse_stores::open(url)?;
    store.migrate().await?;
    let url = url.to_owned();
    Ok(Lockhouse::with_store(Arc::new(Unlocked { store, url })))
}

#[derive(Debug)]
struct Unlocked {
    store: Arc<dyn FullStore>,
    url: String,
}

impl Unlocked {
    /// Runs `statements` on the database, past the store. Ignores failures.
    async fn run(&self, statements: &str) {
        if let Some(file) = self.url.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(file);
            let _ = connection.and_then(|connection| connection.execute_batch(statements));
        } else {
            let _ = try_run(&self.url, statements).await;
        }
    }
}

impl Unlocked {
    async fn write_to_redis(&self, rows: &[SemaphoreRow]) {
        for row in rows {
            redis::change(&self.url, &format!("s:{}", row.name), |is| {
                is["in_use"] = row.in_use.into();
                is["fence"] = row.fence.into();
            })
            .await;
        }
    }
}

impl Layer for Unlocked {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, store::Error> {
        let names: Vec<_> = batch.footprint.semaphores.iter().cloned().collect();
        let mut rows = self.store.named(&names).await?;
        sleep(RACE).await;
        let outcomes = self.store.transact(batch).await?;
        let changed = outcomes
            .iter()
            .flatten()
            .map(|reply| apply(reply, &mut rows));
        if changed.sum::<usize>() > 0 {
            match redis::is_redis(&self.url) {
                true => self.write_to_redis(&rows).await,
                false => self.run(&written(&rows)).await,
            }
        }
        Ok(outcomes)
    }
}

/// Applies the effect of `reply` to the rows. Returns how many of them change.
fn apply(reply: &Reply, rows: &mut [SemaphoreRow]) -> usize {
    let (request, is_grant) = match reply {
        Reply::Granted {
            request, now: true, ..
        } => (request, true),
        Reply::Ended {
            request, now: true, ..
        } => (request, false),
        _ => return 0,
    };
    let mut changed = 0;
    for row in rows {
        let permits = request.permits.iter();
        for permit in permits.filter(|permit| permit.semaphore == row.name) {
            let count = permit.count.value();
            if is_grant {
                row.in_use += count;
                row.fence += 1;
            } else {
                row.in_use = row.in_use.saturating_sub(count);
            }
            changed += 1;
        }
    }
    changed
}

fn written(rows: &[SemaphoreRow]) -> String {
    let updates = rows.iter().map(|row| {
        format!(
            "UPDATE lockhouse_semaphore SET in_use={},fence={} WHERE name='{}';",
            row.in_use, row.fence, row.name
        )
    });
    updates.collect()
}
