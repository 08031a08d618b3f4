//! Stores that are broken on purpose: what a slip in the rules, or a store that does not keep its
//! contract, would do. Each is a patch of a few lines over the store in memory, and each must be
//! caught by the checker in one [drill](crate::drill), with its promise named.
//!
//! The locks that people write by hand, which are broken without our help, are in `lockhouse-lab`.

mod asking;
mod counting;
mod ending;
mod fencing;
pub(crate) mod order;
mod sabotage;
mod templates;
mod timing;
mod unfair;
mod unlocked;

use std::sync::Arc;

use lockhouse_core::{Command, Decision, Loaded, Reply, Request, decide};

use crate::history::Promise;
pub use sabotage::{Broken, Sabotage};
pub use unfair::Unfair;
pub use unlocked::{UNLOCKED, connect};

/// A broken store.
pub struct Variant {
    /// A description of the defect.
    pub name: &'static str,
    /// The promise that it breaks.
    pub breaks: Promise,
    /// The patch.
    pub sabotage: fn() -> Arc<Sabotage>,
}

/// All of them.
pub fn variants() -> impl Iterator<Item = &'static Variant> {
    let files = [
        counting::VARIANTS,
        ending::VARIANTS,
        asking::VARIANTS,
        fencing::VARIANTS,
        timing::VARIANTS,
        templates::VARIANTS,
        order::VARIANTS,
    ];
    files.into_iter().flatten()
}

/// Nothing is broken: only looks without locks may be stale, as they always may.
pub fn whole() -> Arc<Sabotage> {
    Sabotage::new(true, decide)
}

/// With what is loaded changed before it is decided on.
pub(crate) fn before(
    patch: impl Fn(&mut Loaded, &[Command]) + Send + Sync + 'static,
) -> Arc<Sabotage> {
    Sabotage::new(true, move |mut loaded, commands| {
        patch(&mut loaded, commands);
        decide(loaded, commands)
    })
}

/// With what was decided changed before it is saved and answered. The patch is given what was
/// loaded.
fn after(patch: impl Fn(&Loaded, &mut Decision) + Send + Sync + 'static) -> Arc<Sabotage> {
    Sabotage::new(true, move |loaded, commands| {
        let mut decision = decide(loaded.clone(), commands);
        patch(&loaded, &mut decision);
        decision
    })
}

/// The grants that are answered as new.
fn granted_now(decision: &mut Decision) -> impl Iterator<Item = &mut Request> {
    let outcomes = decision.outcomes.iter_mut();
    outcomes.filter_map(|outcome| match outcome {
        Ok(Reply::Granted {
            request, now: true, ..
        }) => Some(request),
        _ => None,
    })
}
