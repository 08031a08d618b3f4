//! The loop by which every store does a batch: load, decide, save.
//!
//! ```text
//! load the footprint ─▶ does it touch more? ─▶ decide ─▶ save and commit ─▶ answer
//!         ▲                     │ yes                          │ outdated
//!         └─────────────────────┴──────────────────────────────┘
//! ```
//!
//! A batch names most of what it touches beforehand. The rest is known only from the rows: which semaphores
//! a request holds that is ended, or whether a definition creates its semaphore. Then the footprint grows, and the
//! batch begins again.
//!
//! A store that locks its rows commits at the first attempt, but for one case: an id that is only asked for is mostly new,
//! and reading it finds nothing. Such a store may [take it for new](Transaction::TAKES_FOR_NEW) and not load it. Its unique key
//! refuses the insert if that was wrong; a refused ask has nothing to insert, so the store looks it up before the refusal is
//! believed. Either way the attempt is [outdated](Commit::Outdated), and the next one loads everything.
//!
//! An optimistic store locks nothing: its commit is outdated whenever another one changed what this one loaded.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{Batch, Error, Kind};
use crate::{Changes, Command, ExternalId, Footprint, Loaded, Outcome, decide};

/// How often a batch is begun. A store that locks needs three or four rounds at worst. An optimistic one needs more under
/// contention, and pauses between them.
const ROUNDS: usize = 24;

/// The two ends of a batch, which a store supplies.
///
/// # Contract
/// - [`load`](Self::load) begins anew. Whatever an earlier `load` has locked may be let go first.
/// - Between a `load` and the commit of its [`save`](Self::save), nobody else changes what was loaded. A store
///   that locks keeps its locks; an optimistic one commits only if nothing has changed.
/// - A `save` that is [outdated](Commit::Outdated), or fails with an error that is not
///   [`maybe_applied`](Error::maybe_applied), has changed nothing that counts.
/// - A transaction that is dropped without a commit changes nothing.
#[expect(
    async_fn_in_trait,
    reason = "each store has one caller, which knows whether the futures are Send"
)]
pub trait Transaction {
    /// Whether ids that a batch only asks for are left out of the first footprint, as they are mostly new.
    const TAKES_FOR_NEW: bool;

    /// Reads the rows of `footprint`, in its order if they are locked, and then the clock.
    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error>;

    /// Writes `changes` and commits. Outdated if one of the requests to insert is there already, or one of those of `absent`,
    /// which were taken for new and are not to be inserted.
    ///
    /// `changes` may have semaphores that there were no rows of; they are created. They may be empty if `absent` is not.
    async fn save(
        &mut self,
        changes: Changes,
        absent: &BTreeSet<&ExternalId>,
    ) -> Result<Commit, Error>;
}

/// How an attempt to commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The changes are committed.
    Done,
    /// Nothing was changed: something is not as it was loaded or taken to be. The batch begins again.
    Outdated,
}

/// Does `batch` in `transaction`: one outcome a command, in their order.
///
/// # Errors
/// Those of the store. [`Kind::Conflict`] if what the batch touches keeps changing.
pub async fn transact<T: Transaction>(
    transaction: &mut T,
    batch: &Batch,
) -> Result<Vec<Outcome>, Error> {
    let commands = &batch.commands;
    let mut footprint = batch.footprint.clone();
    let mut new = BTreeSet::new();
    if T::TAKES_FOR_NEW {
        new = only_asked_for(commands);
        footprint.requests.retain(|id| !new.contains(id));
    }
    for _ in 0..ROUNDS {
        let loaded = transaction.load(&footprint).await?;
        if footprint.grow(commands, &loaded) {
            continue;
        }
        let decision = decide(loaded, commands);
        let absent = refused(commands, &decision.outcomes, &new);
        if decision.changes.is_empty() && absent.is_empty() {
            return Ok(decision.outcomes);
        }
        match transaction.save(decision.changes, &absent).await {
            Ok(Commit::Done) => return Ok(decision.outcomes),
            Ok(Commit::Outdated) => {
                footprint.requests.extend(new.into_iter().cloned());
                new = BTreeSet::new();
            }
            Err(error) => return Err(error.after_deciding(decision.outcomes)),
        }
    }
    let problem = "what the batch touches keeps changing; try again";
    Err(Error::new(Kind::Conflict, problem))
}

/// The same for a store that never waits, such as one in this process.
///
/// # Errors
/// Those of [`transact`].
pub fn transact_at_once<T: Transaction>(
    transaction: &mut T,
    batch: &Batch,
) -> Result<Vec<Outcome>, Error> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(transact(transaction, batch)).poll(&mut context) {
        Poll::Ready(outcomes) => outcomes,
        Poll::Pending => {
            let problem = "internal error: a store that never waits did";
            Err(Error::new(Kind::Rejected, problem))
        }
    }
}

/// The ids that `commands` ask for and do nothing else about.
fn only_asked_for(commands: &[Command]) -> BTreeSet<&ExternalId> {
    let named = |is_ask: bool| {
        let commands = commands
            .iter()
            .filter(move |command| command.ask().is_some() == is_ask);
        commands.filter_map(Command::external_id)
    };
    let mut asked_for: BTreeSet<_> = named(true).collect();
    for external_id in named(false) {
        asked_for.remove(external_id);
    }
    asked_for
}

/// Those of the `new` ids that were refused what they asked for.
fn refused<'a>(
    commands: &'a [Command],
    outcomes: &[Outcome],
    new: &BTreeSet<&ExternalId>,
) -> BTreeSet<&'a ExternalId> {
    if new.is_empty() {
        return BTreeSet::new();
    }
    let refused = commands
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| outcome.is_err());
    let ids = refused.filter_map(|(command, _)| command.external_id());
    ids.filter(|external_id| new.contains(external_id))
        .collect()
}
