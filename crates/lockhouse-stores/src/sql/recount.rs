//! Verification and repair.
//!
//! A permit is live when its request is.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::store::Error;
use lockhouse_core::{HeldSlots, Recount, Recounted, SemaphoreName, SemaphoreRow};

use super::Inner;
use super::dialect::Dialect;
use super::pool::Lease;
use super::read::{READ, select};
use super::rows::{self, TextRow};
use super::transact::WORK;

/// How long a recount may take. It reads whole tables.
const COUNTING: Duration = Duration::from_secs(600);

/// One snapshot sees one moment. It takes no locks, so batches go on meanwhile.
pub(crate) async fn recount<D: Dialect>(store: &Inner<D>) -> Result<Recount, Error> {
    let mut lease = store.pool.lend(READ).await?;
    lease.extend(COUNTING);
    let mut answers = lease
        .run(&D::recount(Recount::MOST_TORN), "recounting")
        .await?;
    // The last answer is that of the COMMIT.
    answers.pop();
    let mut last = || answers.pop().unwrap_or_default();
    let (torn, slots, sums, semaphores) = (last(), last(), last(), last());

    let sums = sums.iter().map(rows::sums);
    let mut sums = sums.collect::<Result<BTreeMap<_, _>, Error>>()?;
    let mut slots = held_slots(&slots)?;
    let semaphores = semaphores.iter().map(|row| {
        let (id, semaphore) = rows::semaphore(row)?;
        let rows::Sums {
            live,
            last_fence,
            repeated_fences,
            misfiled,
        } = sums.remove(&id).unwrap_or_default();
        Ok(Recounted {
            semaphore,
            live,
            last_fence,
            repeated_fences,
            misfiled,
            slots: slots.remove(&id).unwrap_or_default(),
        })
    });
    Ok(Recount {
        semaphores: semaphores.collect::<Result<_, Error>>()?,
        torn: torn
            .iter()
            .map(rows::external_id)
            .collect::<Result<_, Error>>()?,
    })
}

pub(crate) async fn repair<D: Dialect>(
    store: &Inner<D>,
    name: &SemaphoreName,
) -> Result<Option<SemaphoreRow>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let repaired = count_and_write(&mut lease, name).await;
    lease.roll_back().await;
    repaired
}

/// Leaves the transaction open if there is nothing to write, or an error occurs.
///
/// The last fence is read before the lock is taken, since that reads all kept permits. A grant in
/// between raises the fence in the semaphore's row too, which is read under the lock.
async fn count_and_write<D: Dialect>(
    lease: &mut Lease<D>,
    name: &SemaphoreName,
) -> Result<Option<SemaphoreRow>, Error> {
    let context = "repairing a semaphore";
    lease.extend(COUNTING);
    let found = select(lease, &D::last_fence(name), context).await?;
    let Some((id, last_fence)) = found.first().map(rows::last_fence).transpose()? else {
        return Ok(None);
    };

    lease.extend(WORK);
    let mut answers = lease.run(&D::count_live(name, id), context).await?;
    let (live, semaphore) = (answers.pop(), answers.pop());
    let (Some(semaphore), Some(live)) = (
        semaphore.as_ref().and_then(|rows| rows.first()),
        live.as_ref().and_then(|rows| rows.first()),
    ) else {
        return Ok(None);
    };
    let (_, was) = rows::semaphore(semaphore)?;
    let (live, misfiled) = rows::live(live)?;
    let in_use = u32::try_from(live).unwrap_or(u32::MAX);
    let fence = was.fence.max(last_fence);
    let slots = match was.is_slotted() {
        true => {
            let held = select(lease, &D::live_slots(id), context).await?;
            let held = held_slots(&held)?.remove(&id).unwrap_or_default();
            Some(held.held)
        }
        false => None,
    };
    if (in_use, fence, &slots) == (was.in_use, was.fence, &was.slots) && misfiled == 0 {
        return Ok(None);
    }
    lease
        .run(&D::write_counts(id, in_use, fence, slots.as_ref()), context)
        .await?;
    Ok(Some(was))
}

/// The slots of live permits, by the ids of their semaphores.
fn held_slots(rows: &[impl TextRow]) -> Result<BTreeMap<u64, HeldSlots>, Error> {
    let mut held: BTreeMap<u64, HeldSlots> = BTreeMap::new();
    for row in rows {
        let (id, slots) = rows::held_slots(row)?;
        held.entry(id).or_default().add(&slots);
    }
    Ok(held)
}
