//! The code that the stores on a database server share: everything except the SQL.
//!
//! A batch is two round trips. The first packet begins a transaction, locks the rows that the batch
//! touches and reads the clock. Then this process decides the batch. The second packet writes the
//! changes, and commits. Neither is prepared, since each prepared statement would take a round
//! trip.
//!
//! - `transact` executes a batch; `read`, `walk`, `due`, `purge`, `recount` and `schema` the other
//!   calls.
//! - `driver` and `dialect` have the differences between servers, and `values` writes rows as literals.
//! - `known` caches permits that this process has read or written.
//! - `locked` finds the rows that other transactions keep locked.
//! - `script` builds the SQL; `rows` and `load` read the answers.
//! - `interruption` ends a script that waits for a locked gap.
//! - `pool`, `idle`, `spare`, `hosts` and `connection` run scripts, and `error` maps their failures.
//! - `peer` finds out whether the URL names a server of another kind.
//! - **Errors**: an error of the server before the COMMIT means that nothing was applied. If the
//!   connection breaks after the second packet was sent, the outcome is unknown.

mod connection;
mod dialect;
mod driver;
mod due;
mod error;
mod gap;
mod handle;
mod host;
mod hosts;
mod idle;
mod ids;
mod interruption;
mod known;
pub(crate) mod load;
mod locked;
mod peer;
#[cfg(test)]
pub(crate) mod plan_rows;
mod pool;
mod purge;
mod read;
mod recount;
mod row_ids;
pub(crate) mod rows;
mod schema;
mod script;
mod spare;
mod store;
pub(crate) mod templates;
mod tokens;
mod transact;
mod url;
pub(crate) mod values;
pub(crate) mod waiting_list;
mod walk;

pub(crate) use dialect::{ByKey, Dialect, Look};
pub(crate) use driver::{Driver, Pieces, ReadOnly};
pub(crate) use error::servers_word;
use handle::Inner;
pub use handle::Sql;
pub(crate) use host::Host;
pub(crate) use hosts::Hosts;
pub(crate) use pool::Lease;
pub(crate) use row_ids::RowIds;
pub(crate) use script::{Inserts, Maybe, Script, hex, list};
pub(crate) use url::{Location, Pem, check_file, check_files, connections, names_a, parsed};
