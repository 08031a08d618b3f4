//! A stale writer and a resource, with a fence gate and without.
//!
//! A holder is granted a permit, and pauses until its TTL has passed. Another holder is granted the permit, and writes. Then
//! the first one continues and writes too. The scene runs at capacity 1, and at capacity 4 on a slot.

use std::time::Duration;

use lockhouse::{Lockhouse, Permit};
use lockhouse_gate::{SqlDialect, sql};
use serde::Serialize;

use crate::Failed;
use crate::strategy::{Sql, Trouble};

const TTL: Duration = Duration::from_secs(1);

/// The tables, which are dropped at the end.
const TABLES: [&str; 2] = ["lockhouse_lab_report", "lockhouse_lab_gate"];

/// The result of a write that came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StaleWrite {
    /// The semaphore's capacity; above 1 it is slotted.
    pub capacity: u32,
    /// Whether the writers passed a fence gate.
    pub gate: bool,
    /// Whether the stale writer replaced what its successor had written.
    pub replaced: bool,
}

/// Plays it at both capacities, without the gate and with it, on the database of `url`.
///
/// # Errors
/// When a call of Lockhouse or of the database fails.
pub async fn show(lockhouse: &Lockhouse, url: &str) -> Result<Vec<StaleWrite>, Failed> {
    let mut resource = Resource::open(url).await?;
    resource.create().await?;
    let mut shown = Vec::new();
    for capacity in [1, 4] {
        let name = format!("lockhouse-lab-gate-{}", uuid::Uuid::new_v4().simple());
        let define = lockhouse.define(&name, capacity);
        match capacity {
            1 => define.await?,
            _ => define.slots().await?,
        };
        for gate in [false, true] {
            let replaced = resource.stale_write(lockhouse, &name, gate).await;
            shown.push(replaced.map(|replaced| StaleWrite {
                capacity,
                gate,
                replaced,
            }));
        }
        lockhouse.delete(&name).await?;
    }
    resource.drop().await?;
    shown.into_iter().collect()
}

struct Resource {
    sql: Sql,
    dialect: SqlDialect,
}

impl Resource {
    async fn open(url: &str) -> Result<Self, Trouble> {
        let mut sql = Sql::open(url).await?;
        let is_mariadb = "SELECT VERSION() LIKE '%MariaDB%'";
        let dialect = match &sql {
            Sql::Sqlite(_) => SqlDialect::Sqlite,
            Sql::Postgres(_) => SqlDialect::Postgres,
            Sql::MySql(_) => match sql.number(is_mariadb, &[]).await? {
                Some(1) => SqlDialect::MariaDb,
                _ => SqlDialect::MySql,
            },
        };
        Ok(Self { sql, dialect })
    }

    async fn create(&mut self) -> Result<(), Trouble> {
        self.drop().await?;
        let report = "CREATE TABLE lockhouse_lab_report \
            (slot BIGINT PRIMARY KEY, fence BIGINT NOT NULL)";
        self.sql.run(report, &[]).await?;
        let gate = of_the_lab(sql::create_table(self.dialect));
        self.sql.run(&gate, &[]).await.map(drop)
    }

    async fn drop(&mut self) -> Result<(), Trouble> {
        for table in TABLES {
            let drop = format!("DROP TABLE IF EXISTS {table}");
            self.sql.run(&drop, &[]).await?;
        }
        Ok(())
    }

    /// Whether the writer that was paused replaces what its successor wrote.
    async fn stale_write(
        &mut self,
        lockhouse: &Lockhouse,
        name: &str,
        gate: bool,
    ) -> Result<bool, Failed> {
        let paused = lockhouse.request().permits(name, 1).ttl(TTL);
        let paused = paused.acquire().await?;
        let stale = shown_by(&paused, name);
        // A paused holder does not renew.
        paused.forget();
        let mut holders = Vec::new();
        // At a higher capacity the other slots are taken first.
        let (next, fence) = loop {
            let next = lockhouse.semaphore(name).acquire().await?;
            let (slot, fence) = shown_by(&next, name);
            if slot == stale.0 {
                break (next, fence);
            }
            holders.push(next);
        };
        self.write(name, (stale.0, fence), gate).await?;
        self.write(name, stale, gate).await?;
        let last = "SELECT fence FROM lockhouse_lab_report WHERE slot = ?";
        let last = self.sql.number(last, &[&stale.0]).await?;
        for holder in holders.into_iter().chain([next]) {
            holder.release().await?;
        }
        Ok(last == Some(stale.1))
    }

    /// Writes the fence into the row of the slot, unless the gate refuses it.
    async fn write(
        &mut self,
        name: &str,
        (slot, fence): (i64, i64),
        gate: bool,
    ) -> Result<(), Trouble> {
        self.sql.begin().await?;
        if gate {
            let pass = of_the_lab(sql::pass(self.dialect));
            match self.sql.run(&pass, &[&name, &slot, &fence]).await {
                Err(trouble) if is_stale(&trouble) => {
                    return self.sql.run("ROLLBACK", &[]).await.map(drop);
                }
                passed => passed?,
            };
        }
        let gone = "DELETE FROM lockhouse_lab_report WHERE slot = ?";
        self.sql.run(gone, &[&slot]).await?;
        let insert = "INSERT INTO lockhouse_lab_report (slot, fence) VALUES (?, ?)";
        self.sql.run(insert, &[&slot, &fence]).await?;
        self.sql.run("COMMIT", &[]).await.map(drop)
    }
}

fn shown_by(permit: &Permit, name: &str) -> (i64, i64) {
    let slot = permit.slots(name).first().copied().unwrap_or(0);
    // Fences stay below 2⁵³.
    (slot.into(), permit.fence(name).cast_signed())
}

/// Replaces the gate's table by the lab's table, as the database may have a gate of its users.
fn of_the_lab(statement: &str) -> String {
    statement.replace("lockhouse_", "lockhouse_lab_")
}

fn is_stale(trouble: &Trouble) -> bool {
    match trouble {
        // SQLite reports every violated constraint as a duplicate.
        Trouble::Duplicate => true,
        Trouble::Deadlock => false,
        Trouble::Other(text) => text.contains(&of_the_lab(sql::STALE)),
    }
}
