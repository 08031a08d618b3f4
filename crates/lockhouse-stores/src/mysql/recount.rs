//! Counts everything anew, and sets right what is off.
//!
//! A permit is live when its request is: that is what a release gives back. What the permit's own
//! row says besides must agree, or the request is torn.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::store::Error;
use lockhouse_core::{Recount, Recounted, Semaphore, SemaphoreName};

use super::Inner;
use super::pool::Lease;
use super::read::{READ, select};
use super::rows;
use super::sql::{Script, Text};
use super::transact::WORK;

/// How long counting may take, which reads whole tables.
const COUNTING: Duration = Duration::from_secs(600);

/// The most requests to name as torn.
const TORN: usize = 1000;

/// One snapshot, in a transaction of its own isolation level, sees one moment. It takes no locks,
/// so batches go on meanwhile.
pub(super) async fn recount(store: &Inner) -> Result<Recount, Error> {
    let mut lease = store.pool.lend(READ).await?;
    lease.extend(COUNTING);
    let mut script = Script::of("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    script.add("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    script.add(format_args!(
        "SELECT {} FROM lockhouse_semaphore s ORDER BY s.name",
        rows::SEMAPHORE
    ));
    script.add(
        "SELECT p.semaphore_id,SUM(IF(r.state='ACQUIRED',p.`count`,0)),MAX(p.fence),\
         COUNT(*)-COUNT(DISTINCT p.fence),MAX(r.created_at) \
         FROM lockhouse_permit p FORCE INDEX (PRIMARY) \
         LEFT JOIN lockhouse_permit_request r FORCE INDEX (PRIMARY) ON r.id=p.permit_request_id \
         GROUP BY p.semaphore_id",
    );
    script.add(format_args!(
        "SELECT DISTINCT r.external_id FROM lockhouse_permit_request r FORCE INDEX (PRIMARY) \
         LEFT JOIN lockhouse_permit p FORCE INDEX (PRIMARY) ON p.permit_request_id=r.id \
         WHERE p.permit_request_id IS NULL OR p.state<>r.state \
         OR (r.state='RELEASED')<>(r.released_at IS NOT NULL) \
         OR (r.state='RELEASED')<>(r.end_reason IS NOT NULL) \
         OR (r.state='ACQUIRED' AND r.ended_by IS NOT NULL) \
         ORDER BY r.external_id LIMIT {TORN}"
    ));
    script.add("COMMIT");
    let answers = lease.run(&script, "counting anew").await?;
    let mut answers = answers.into_iter().skip(2);
    let mut next = || answers.next().unwrap_or_default();
    let (semaphores, sums, torn) = (next(), next(), next());

    let sums = sums.iter().map(rows::sums);
    let mut sums = sums.collect::<Result<BTreeMap<_, _>, Error>>()?;
    let semaphores = semaphores.iter().map(|row| {
        let (id, semaphore) = rows::semaphore(row)?;
        let rows::Sums {
            live,
            last_fence,
            repeated_fences,
            last_granted_at,
        } = sums.remove(&id).unwrap_or_default();
        Ok(Recounted {
            semaphore,
            live,
            last_fence,
            repeated_fences,
            last_granted_at,
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

pub(super) async fn repair(
    store: &Inner,
    name: &SemaphoreName,
) -> Result<Option<Semaphore>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let repaired = count_and_write(&mut lease, name).await;
    lease.roll_back().await;
    repaired
}

/// Leaves the transaction open when there is nothing to write, or something goes wrong.
///
/// The last fence is read before the lock is taken, since it takes all permits that are kept. What
/// is granted in between has fences that the semaphore's row, read under the lock, is not behind.
async fn count_and_write(
    lease: &mut Lease,
    name: &SemaphoreName,
) -> Result<Option<Semaphore>, Error> {
    let context = "repairing a semaphore";
    lease.extend(COUNTING);
    let script = Script::of(format_args!(
        "SELECT s.id,MAX(p.fence) FROM lockhouse_semaphore s \
         LEFT JOIN lockhouse_permit p FORCE INDEX (held) ON p.semaphore_id=s.id \
         WHERE s.name={} GROUP BY s.id",
        Text(name.as_str())
    ));
    let found = select(lease, &script, context).await?;
    let Some((id, last_fence)) = found.first().map(rows::last_fence).transpose()? else {
        return Ok(None);
    };

    lease.extend(WORK);
    let mut script = Script::transaction();
    script.add(format_args!(
        "SELECT {} FROM lockhouse_semaphore s FORCE INDEX (name) WHERE s.name={} FOR UPDATE",
        rows::SEMAPHORE,
        Text(name.as_str())
    ));
    script.add(format_args!(
        "SELECT COALESCE(SUM(p.`count`),0) FROM lockhouse_permit_request r FORCE INDEX (live) \
         STRAIGHT_JOIN lockhouse_permit p FORCE INDEX (PRIMARY) \
         ON p.permit_request_id=r.id AND p.semaphore_id={id} WHERE r.state='ACQUIRED'"
    ));
    let answers = lease.run(&script, context).await?;
    let [_, semaphore, live] = answers.as_slice() else {
        return Ok(None);
    };
    let (Some(semaphore), Some(live)) = (semaphore.first(), live.first()) else {
        return Ok(None);
    };
    let (_, was) = rows::semaphore(semaphore)?;
    let live: u64 = rows::number(live)?;
    let in_use = u32::try_from(live).unwrap_or(u32::MAX);
    let fence = was.fence.max(last_fence);
    if (in_use, fence) == (was.in_use, was.fence) {
        return Ok(None);
    }
    let mut script = Script::of(format_args!(
        "UPDATE lockhouse_semaphore FORCE INDEX (PRIMARY) SET in_use={in_use},fence={fence} \
         WHERE id={id}"
    ));
    script.commit();
    lease.run(&script, context).await?;
    Ok(Some(was))
}
