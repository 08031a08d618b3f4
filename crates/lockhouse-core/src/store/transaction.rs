//! The loop by which every store executes a batch: load, decide, save.
//!
//! ```text
//! load the footprint ─▶ does it touch more? ─▶ decide ─▶ save and commit ─▶ answer
//!         ▲                     │ yes                          │ outdated
//!         └─────────────────────┴──────────────────────────────┘
//! ```
//!
//! A batch names most of the rows that it touches. Only the rows tell the rest: the semaphores of a
//! request that is ended, or whether a definition creates its semaphore. Then the footprint grows,
//! and the batch begins again.
//!
//! A store that locks its rows commits at the first attempt, with one exception. The id of an
//! acquire is mostly new, so reading it mostly finds nothing. Such a store may [take it for
//! new](Transaction::TAKES_FOR_NEW) and not load it. If the id was not new, the unique key refuses
//! the insert. A refused ask inserts nothing, so the store looks its id up before it believes the
//! refusal. In both cases the attempt is [outdated](Commit::Outdated), and the next one loads
//! everything.
//!
//! An optimistic store locks nothing: its commit is outdated if another commit changed the loaded
//! rows.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{Batch, Error, Kind};
use crate::{Changes, Command, ExternalId, Footprint, Loaded, Outcome, decide};

/// How many rounds of load and save a batch gets. A store that locks needs three or four at worst.
/// An optimistic store needs more under contention. It pauses in [`save`](Transaction::save) before it answers that the
/// commit is outdated.
const ROUNDS: usize = 24;

/// The load and the save of a batch, which a store implements.
///
/// # Contract
/// - [`load`](Self::load) begins again. It may first release the locks of an earlier `load`.
/// - Between a `load` and the commit of its [`save`](Self::save), no other transaction changes the
///   loaded rows. A row of the footprint that was not there must not appear meanwhile, except where the footprint takes ids
///   for new. A store that locks keeps its locks. An optimistic store commits only if no row has changed. The epoch and the
///   templates are among the rows.
/// - A `save` that is [outdated](Commit::Outdated), or fails with an error that is not
///   [`maybe_applied`](Error::maybe_applied), has changed nothing.
/// - A transaction that is dropped without a commit changes nothing.
#[expect(
    async_fn_in_trait,
    reason = "each store has one caller, which knows whether the futures are Send"
)]
pub trait Transaction {
    /// Whether the first footprint leaves out the ids of acquires, since they are mostly new.
    const TAKES_FOR_NEW: bool;

    /// Reads the rows of `footprint`, locking them in its order if the store locks, and then the
    /// clock.
    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error>;

    /// Writes `changes` and commits. The result is outdated if one of the requests to insert exists
    /// already, or if a request with one of the ids `absent` exists.
    ///
    /// `absent` are ids of refused asks that the footprint left out: no request with one of them may exist. It is empty
    /// unless [`TAKES_FOR_NEW`](Self::TAKES_FOR_NEW).
    ///
    /// `changes` may have semaphores without a row, which are created. They may be empty if
    /// `absent` is not.
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
    /// Nothing was changed, since a row is not as it was loaded or assumed. The batch begins again.
    Outdated,
}

/// Executes `batch` in `transaction`. Returns one outcome for each command, in their order.
///
/// # Errors
/// Those of the store. [`Kind::Conflict`] if the rows of the batch keep changing.
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
    let problem = "the rows of the batch keep changing; try again";
    Err(Error::new(Kind::Conflict, problem))
}

/// [`transact`] for a store that never waits, such as one in this process.
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
            let problem = "internal error: a store that never waits has waited";
            Err(Error::new(Kind::Rejected, problem))
        }
    }
}

/// The ids that occur only in acquires among `commands`.
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

/// The ids among `new` whose acquires were refused.
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
