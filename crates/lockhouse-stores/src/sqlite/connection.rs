//! One connection to the file, and its transactions.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lockhouse_core::store::{Error, Kind};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::error::{self, cannot};

/// How often a writer polls the lock. SQLite's own busy handler soon polls only every 100 ms, and
/// misses the short gaps that a busy process leaves. With three processes, the slowest call took
/// 1.9 s with it and 65 ms with this.
pub(super) const POLL: Duration = Duration::from_millis(1);

/// How many times it polls at that rate. With hundreds of writing processes, polling alone would keep
/// the machine busy and slow down the process that has the lock: of 300 at once on two cores, 26
/// were served in 200 s. So the pause then grows by a fifth with each poll, up to a bound, with
/// jitter.
const SOON: u32 = 8;
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// More than the number of statements, so that none is prepared twice.
const PREPARED_STATEMENTS: usize = 64;

/// A commit is durable, on a Mac too. The other settings are kept in the file.
const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON";

/// The access of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Write, and create the file if it is missing.
    Create,
}

/// Opens a connection and applies its settings.
pub(super) fn open(file: &Path, access: Access, deadline: Instant) -> Result<Connection, Error> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if access == Access::Create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    } else if let Ok(false) = file.try_exists() {
        return Err(missing(file));
    }
    let set_up = |connection: &Connection| {
        connection.busy_timeout(left(deadline))?;
        connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
        connection.execute_batch(SETTINGS)?;
        connection.pragma_update(None, "query_only", access == Access::Read)
    };
    Connection::open_with_flags(file, flags)
        .and_then(|connection| set_up(&connection).map(|()| connection))
        .map_err(cannot("open the file"))
}

/// Begins a transaction that has the write lock: no other can change anything until it ends.
pub(super) fn begin_write(
    connection: &Connection,
    deadline: Instant,
) -> Result<Transaction<'_>, Error> {
    connection
        .busy_timeout(Duration::ZERO)
        .map_err(cannot("set a busy timeout"))?;
    let mut looks = 0;
    let mut longest = POLL;
    loop {
        match Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Err(error) if error::is_busy(&error) && Instant::now() < deadline => {
                looks += 1;
                if looks > SOON {
                    longest = longest.mul_f64(1.2).min(LONGEST_POLL);
                }
                thread::sleep(POLL + (longest - POLL).mul_f64(fastrand::f64()));
            }
            begun => return begun.map_err(cannot("begin a transaction")),
        }
    }
}

/// Begins a transaction that reads.
pub(super) fn begin_read(
    connection: &Connection,
    deadline: Instant,
) -> Result<Transaction<'_>, Error> {
    connection
        .busy_timeout(left(deadline))
        .and_then(|()| Transaction::new_unchecked(connection, TransactionBehavior::Deferred))
        .map_err(cannot("begin to read"))
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// The error for a missing file.
fn missing(file: &Path) -> Error {
    let problem = format!(
        "{} does not exist; create it with `lockhouse migrate`",
        file.display()
    );
    Error::new(Kind::Schema, problem)
}
