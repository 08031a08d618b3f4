//! The published lists of waiters.

use std::time::Duration;

use lockhouse_core::store::{Error, SHOWN_FOR, Shown, ShownAt, ShownWaiter};
use lockhouse_core::{ProcessId, SemaphoreName};

use super::Inner;
use super::dialect::Dialect;
use super::read::{READ, clock};
use super::rows;
use super::script::{Script, list};
use crate::shown;
use crate::time::before;

const CONTEXT: &str = "writing the list of waiters";

const DELETED_AT_ONCE: usize = 100;

pub(crate) async fn show<D: Dialect>(
    store: &Inner<D>,
    process: ProcessId,
    waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
    gone: &[SemaphoreName],
) -> Result<(), Error> {
    let mut lease = store.pool.lend(READ).await?;
    for piece in shown::pieces(waiting) {
        let rows = piece.iter().map(|(name, waiters)| {
            let (name, waiters) = (D::text(name.as_str()), D::text(waiters));
            format!("({name},'{process}',{waiters},{})", D::NOW)
        });
        lease
            .run(&Script::of(D::show(&list(rows))), CONTEXT)
            .await?;
    }
    for names in gone.chunks(DELETED_AT_ONCE) {
        // One by one, so that each finds its row by the key.
        let mut script = Script::new();
        for name in names {
            let name = D::text(name.as_str());
            script.add(format_args!(
                "DELETE FROM lockhouse_waiting WHERE semaphore={name} AND process='{process}'"
            ));
        }
        lease.run(&script, CONTEXT).await?;
    }
    Ok(())
}

pub(crate) async fn shown<D: Dialect>(
    store: &Inner<D>,
    name: &SemaphoreName,
) -> Result<Shown, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let name = D::text(name.as_str()).to_string();
    let mut script = Script::of(format_args!(
        "SELECT w.process,w.waiters,w.written_at FROM lockhouse_waiting w WHERE w.semaphore={name}"
    ));
    script.add(D::CLOCK);
    let mut answers = lease.run(&script, "reading the lists of waiters").await?;
    let now = rows::clock(&answers.pop().unwrap_or_default())?;
    let oldest = before(now, SHOWN_FOR);
    let mut processes = Vec::new();
    for row in answers.pop().unwrap_or_default() {
        let (process, waiters, written) = rows::shown(&row)?;
        if written >= oldest {
            processes.push((process, shown::parse(waiters, written)));
        }
    }
    Ok(Shown { now, processes })
}

pub(crate) async fn shown_at<D: Dialect>(
    store: &Inner<D>,
    names: &[SemaphoreName],
) -> Result<ShownAt, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let names = list(names.iter().map(|name| D::text(name.as_str())));
    let mut script = Script::of(format_args!(
        "SELECT w.semaphore,w.process,w.written_at FROM lockhouse_waiting w \
         WHERE w.semaphore IN ({names})"
    ));
    script.add(D::CLOCK);
    let mut answers = lease.run(&script, "reading the lists of waiters").await?;
    let now = rows::clock(&answers.pop().unwrap_or_default())?;
    let lists = answers.pop().unwrap_or_default();
    let lists = lists.iter().map(rows::shown_at);
    Ok(ShownAt {
        now,
        lists: lists.collect::<Result<_, _>>()?,
    })
}

pub(crate) async fn forget<D: Dialect>(
    store: &Inner<D>,
    age: Duration,
    limit: u32,
) -> Result<u64, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let cutoff = before(clock(&mut lease, CONTEXT).await?, age);
    let cutoff = D::time(cutoff).to_string();
    let find = Script::of(format_args!(
        "SELECT w.semaphore,w.process FROM lockhouse_waiting w \
         WHERE w.written_at<={cutoff} ORDER BY w.written_at LIMIT {limit}"
    ));
    let found = super::read::select(&mut lease, &find, CONTEXT).await?;
    if found.is_empty() {
        return Ok(0);
    }
    // One by one, so that each finds its row by the key.
    let mut script = Script::new();
    for row in &found {
        let (name, process) = rows::shown_key(row)?;
        script.add(forget_one::<D>(&name, process, &cutoff));
    }
    lease.run(&script, CONTEXT).await?;
    Ok(found.len() as u64)
}

/// Deletes one row, if it was written by `cutoff`. It is found by its key, as no index serves a COALESCE.
pub(crate) fn forget_one<D: Dialect>(
    name: &SemaphoreName,
    process: ProcessId,
    cutoff: &str,
) -> String {
    let name = D::text(name.as_str());
    format!(
        "DELETE FROM lockhouse_waiting \
         WHERE semaphore={name} AND process='{process}' AND COALESCE(written_at<={cutoff},FALSE)"
    )
}
