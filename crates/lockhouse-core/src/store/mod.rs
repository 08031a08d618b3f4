//! The traits of a store, which keeps the permits, and its errors.
//!
//! A new kind of store implements [`Store`], [`Templates`], [`Listing`], [`Maintenance`],
//! [`WaitingList`], [`Tokens`], [`Notification`] and [`Migration`], and then is a [`FullStore`]. No
//! trait has a default method, so a store that lacks one does not compile. A [`Layer`] wraps a
//! store and changes some of its calls.

mod batch;
mod connections;
mod contract;
mod cursor;
mod error;
mod layer;
mod listing;
mod maintenance;
mod migration;
mod notification;
mod templates;
mod tokens;
mod transaction;
mod waiting_list;

pub use batch::Batch;
pub use connections::Connections;
pub use contract::{FullStore, Store};
pub use cursor::{Cursor, Held};
pub use error::{Error, Kind};
pub use layer::{Call, Layer};
pub use listing::{Holders, Listing, Page};
pub use maintenance::{Due, Maintenance, Purge, Stale};
pub use migration::Migration;
pub use notification::Notification;
pub use templates::Templates;
pub use tokens::{NewToken, TokenList, Tokens};
pub use transaction::{Commit, Transaction, transact, transact_at_once};
pub use waiting_list::{SHOWN_FOR, Shown, ShownAt, ShownWaiter, Waiter, WaitingList};
