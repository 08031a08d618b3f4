//! P1 to P8, checked on the rows before and after a commit, and on its answers.
//!
//! The checks do not use the rules of decisions, so they also catch a rule that is wrong in both `decide` and the model.

use lockhouse_core::{Capacity, Command, Count, EndReason, Grant, Reply, SemaphoreName, State};

use crate::broken::{Broken, Check, ensure};
use crate::causes;
use crate::commit::{Commit, is_live};
use crate::slots;

/// All promises that the commit breaks.
pub(crate) fn broken_by(commit: &Commit<'_>) -> Vec<Broken> {
    let checks = [
        capacity,
        conservation,
        slots::held_by_one,
        slots::lowest_first,
        slots::taken_while_held,
        ends_once,
        causes::ends_for_its_cause,
        causes::names_the_caller_that_ended_it,
        causes::sessions_are_kept,
        end_is_the_end,
        idempotency,
        all_or_nothing,
        fences_rise,
        one_clock,
    ];
    checks
        .iter()
        .filter_map(|check| check(commit).err())
        .collect()
}

/// P1: after a grant on a semaphore, its live sum is at most a capacity that was in force during the commit.
fn capacity(commit: &Commit<'_>) -> Check {
    for permit in commit.grants().flat_map(|(_, granted)| &granted.permits) {
        let name = &permit.semaphore;
        let live = commit.after.live_permits(name);
        let most = commit.largest_capacity(name).map_or(0, Capacity::value);
        ensure(u64::from(most) >= live, "P1", || {
            format!("{live} of {most} permits of {name} are held")
        })?;
    }
    Ok(())
}

/// P2: `in_use` is the live sum. A held semaphore is never deleted.
fn conservation(commit: &Commit<'_>) -> Check {
    for (name, row) in &commit.after.semaphores {
        let live = commit.after.live_permits(name);
        ensure(u64::from(row.in_use) == live, "P2", || {
            format!(
                "{live} permits of {name} are held, in_use is {}",
                row.in_use
            )
        })?;
        ensure(live == 0 || row.deleted_at.is_none(), "P2", || {
            format!("{name} is deleted and held")
        })?;
    }
    Ok(())
}

/// P3: a request ends at most once, and only by a command that ends it or by its expiry.
fn ends_once(commit: &Commit<'_>) -> Check {
    for id in commit.before.requests.keys().chain(commit.ids()) {
        let was_live = commit.before.requests.get(id).map(is_live);
        let ends: Vec<Option<EndReason>> = commit
            .ends_now()
            .filter(|(_, _, request)| request.external_id == *id)
            .map(|(_, _, request)| request.end_reason())
            .collect();
        let most = usize::from(was_live != Some(false));
        ensure(ends.len() <= most, "P3", || {
            format!("{id} ended {} times too often", ends.len() - most)
        })?;
        let Some(State::Released { reason, .. }) = commit.after.state(id) else {
            ensure(ends.is_empty(), "P3", || format!("{id} ended and is live"))?;
            continue;
        };
        let by_its_time = match reason {
            EndReason::Expired => commit.was_due(id),
            EndReason::Released => commit.was_finished(id),
            _ => false,
        };
        let ended_before = was_live == Some(false);
        ensure(
            ended_before || by_its_time || ends == [Some(reason)],
            "P3",
            || format!("{id} was {reason} and nobody said so"),
        )?;
    }
    Ok(())
}

/// P4: an ended request does not change. A due request can only expire. A request that its holder finished is only released.
/// An unknown request stays unknown.
fn end_is_the_end(commit: &Commit<'_>) -> Check {
    for (id, before) in &commit.before.requests {
        ensure(
            is_live(before) || commit.after.requests.get(id) == Some(before),
            "P4",
            || format!("{id} had ended and was changed"),
        )?;
    }
    for (command, outcome) in commit.commands.iter().zip(commit.outcomes) {
        let (Command::Renew {
            external_id: id, ..
        }
        | Command::End {
            external_id: id, ..
        }) = command
        else {
            continue;
        };
        let known = commit.after.requests.contains_key(id);
        ensure(known || outcome.is_err(), "P4", || {
            format!("{command:?} of an unknown request: {outcome:?}")
        })?;
        let had_ended = commit.before.requests.get(id).is_some_and(|r| !is_live(r));
        let over = commit.was_due(id) || commit.was_finished(id) || had_ended;
        ensure(
            !over || !matches!(outcome, Ok(Reply::Renewed(_))),
            "P4",
            || format!("{id} was over and was renewed"),
        )?;
        let expired = matches!(
            commit.after.state(id),
            Some(State::Released {
                reason: EndReason::Expired,
                ..
            })
        );
        ensure(!commit.was_due(id) || expired, "P4", || {
            format!("{id} was due and did not expire")
        })?;
        let released = matches!(
            commit.after.state(id),
            Some(State::Released {
                reason: EndReason::Released,
                ..
            })
        );
        ensure(!commit.was_finished(id) || released, "P4", || {
            format!("{id} was finished and is not released")
        })?;
    }
    Ok(())
}

/// P5: an id is granted once, to one ask, with the same permits and fences for ever. An ask that was not granted leaves no
/// row.
fn idempotency(commit: &Commit<'_>) -> Check {
    for (id, row) in &commit.after.requests {
        let grants = commit.grants().filter(|(ask, _)| ask.external_id == *id);
        let new = usize::from(!commit.before.requests.contains_key(id));
        let times = grants.count();
        ensure(times == new, "P5", || {
            format!("{id} was granted {times} times by one commit, expected {new}")
        })?;
        ensure(
            new == 1 || commit.before.requests[id].permits == row.permits,
            "P5",
            || format!("{id} holds other permits than it was granted"),
        )?;
    }
    for (ask, granted, _) in commit.granted_replies() {
        ensure(granted.owner == ask.owner, "P5", || {
            format!("{granted:?} was granted to another owner than that of {ask:?}")
        })?;
        let same = ask.permits().eq(granted.permits.iter().map(asked));
        let row = commit.after.requests.get(&ask.external_id);
        let kept = row.is_some_and(|row| row.permits == granted.permits);
        ensure(same && kept, "P5", || {
            format!("{ask:?} was answered {granted:?}, kept is {row:?}")
        })?;
    }
    Ok(())
}

/// P6: a granted request has every permit of the ask, and a refused ask has none.
fn all_or_nothing(commit: &Commit<'_>) -> Check {
    for (ask, _) in commit.grants() {
        let row = commit.after.requests.get(&ask.external_id);
        let all = row.is_some_and(|row| ask.permits().eq(row.permits.iter().map(asked)));
        ensure(all, "P6", || format!("{ask:?} was granted as {row:?}"))?;
    }
    Ok(())
}

/// P7: a grant's fence is above all earlier fences, in the order of the answers. A semaphore's fence never falls.
fn fences_rise(commit: &Commit<'_>) -> Check {
    for (name, after) in &commit.after.semaphores {
        let mut last = commit
            .before
            .semaphores
            .get(name)
            .map_or(0, |row| row.fence);
        for (_, granted) in commit.grants() {
            for permit in granted.permits.iter().filter(|p| p.semaphore == *name) {
                ensure(permit.fence > last, "P7", || {
                    format!("fence {} of {name} was granted after {last}", permit.fence)
                })?;
                last = permit.fence;
            }
        }
        ensure(after.fence >= last, "P7", || {
            format!("the fence of {name} fell from {last} to {}", after.fence)
        })?;
    }
    let gone = |name: &&SemaphoreName| !commit.after.semaphores.contains_key(*name);
    let gone = commit.before.semaphores.keys().find(gone);
    ensure(gone.is_none(), "P7", || format!("{gone:?} lost its fence"))
}

/// P8: the remaining time of a grant is by the store's clock, like its expiry.
fn one_clock(commit: &Commit<'_>) -> Check {
    for (command, outcome) in commit.commands.iter().zip(commit.outcomes) {
        let Ok(Reply::Granted { request, lasts, .. }) = outcome else {
            continue;
        };
        let until = lasts.map(|lasts| commit.now.checked_add(lasts).ok());
        ensure(until == request.expires_at.map(Some), "P8", || {
            format!("{command:?} lasts {lasts:?}: {request:?}")
        })?;
    }
    Ok(())
}

fn asked(permit: &Grant) -> (&SemaphoreName, Count) {
    (&permit.semaphore, permit.count)
}
