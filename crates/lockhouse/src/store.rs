//! To write a store, or to wrap one: the traits of a store, and the types in their signatures.
//!
//! A store implements [`Store`], [`Templates`], [`Listing`], [`Maintenance`], [`WaitingList`], [`Tokens`], [`Notification`] and
//! [`Migration`], which make it a [`FullStore`], and goes to [`Lockhouse::with_store`](crate::Lockhouse::with_store). Each
//! trait has a contract. [`transact`] is the loop of a batch, for which a store has a [`Transaction`]: how it loads rows, and
//! how it saves [`Changes`]. The smallest store is [`lockhouse_stores::Memory`]. The page [Stores] has the steps to write one.
//!
//! A batch of commands is decided and saved in one commit:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! use lockhouse::store::{Batch, Command, Definition, Migration as _, Reply, Store as _};
//! use lockhouse::{Capacity, SemaphoreName};
//!
//! let store = lockhouse_stores::open("memory:")?; // or a store of yours
//! store.migrate().await?;
//! let name = SemaphoreName::parse("backup-slots")?;
//! let define = Command::Define(Definition::new(name, Capacity::new(10)?));
//! let outcomes = store.transact(&Batch::new(vec![define])).await?;
//! assert!(matches!(outcomes[0], Ok(Reply::Defined { created: true, .. })));
//! # Ok(())
//! # }
//! ```
//!
//! A [`Layer`] wraps a store and changes some of its calls, such as this one, which reports slow batches:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//!
//! use lockhouse::Lockhouse;
//! use lockhouse::store::{Batch, Error, FullStore, Layer, Outcome};
//!
//! #[derive(Debug)]
//! struct Watched(Arc<dyn FullStore>);
//!
//! impl Layer for Watched {
//!     fn inner(&self) -> &dyn FullStore {
//!         &*self.0
//!     }
//!
//!     async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
//!         let begun = Instant::now();
//!         let outcomes = self.inner().transact(batch).await;
//!         if begun.elapsed() > Duration::from_secs(1) {
//!             eprintln!("{} commands took {:?}", batch.commands.len(), begun.elapsed());
//!         }
//!         outcomes
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockhouse::Error> {
//! let store = lockhouse_stores::open("memory:")?;
//! let lockhouse = Lockhouse::with_store(Arc::new(Watched(store)));
//! lockhouse.define("backup-slots", 10).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [Stores]: https://github.com/lockhouse/lockhouse/blob/main/docs/how-it-works/stores.md

pub use lockhouse_core::store::*;
pub use lockhouse_core::{
    Cause, Changes, Command, Definition, Ended, Footprint, Freed, Gap, HeldSlots, Key, Line,
    LineTime, Loaded, NamePrefix, Outcome, PlaceInLine, ProcessId, Recount, Recounted, Renewed,
    Reply, Saved, SemaphoreRow, Seniority, Stand, Standing, TemplateDefinition, Turn,
};
