//! One broken store, and how it is patched.

use std::sync::Arc;

use lockhouse_core::{Command, Decision, Loaded, Reply, Request, decide};

use super::sabotage::Sabotage;
use crate::history::Promise;

/// A broken store.
pub struct Variant {
    /// A description of the defect.
    pub name: &'static str,
    /// The promise that it breaks.
    pub breaks: Promise,
    /// The patch.
    pub sabotage: fn() -> Arc<Sabotage>,
}

/// Nothing is broken. Only reads without locks may be stale, which is always allowed.
pub fn whole() -> Arc<Sabotage> {
    Sabotage::new(true, decide)
}

/// Changes the loaded rows before the decision.
pub(crate) fn before(
    patch: impl Fn(&mut Loaded, &[Command]) + Send + Sync + 'static,
) -> Arc<Sabotage> {
    Sabotage::new(true, move |mut loaded, commands| {
        patch(&mut loaded, commands);
        decide(loaded, commands)
    })
}

/// Changes the decision before it is saved and answered. The patch also gets the loaded rows.
pub(super) fn after(
    patch: impl Fn(&Loaded, &mut Decision) + Send + Sync + 'static,
) -> Arc<Sabotage> {
    Sabotage::new(true, move |loaded, commands| {
        let mut decision = decide(loaded.clone(), commands);
        patch(&loaded, &mut decision);
        decision
    })
}

/// The grants that are answered as new.
pub(super) fn granted_now(decision: &mut Decision) -> impl Iterator<Item = &mut Request> {
    let outcomes = decision.outcomes.iter_mut();
    outcomes.filter_map(|outcome| match outcome {
        Ok(Reply::Granted {
            request, now: true, ..
        }) => Some(request),
        _ => None,
    })
}
