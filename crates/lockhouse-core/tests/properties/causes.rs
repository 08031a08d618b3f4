//! Ends by cause: the part of P3 and P10 about causes, owners and their sessions.

use std::time::Duration;

use lockhouse_core::{Cause, Command, EndReason, Owner, Reply, Request, State, Timestamp};

use crate::broken::{Check, ensure};
use crate::commit::Commit;

/// P3: a request that a command ended had the cause that the command gave, or it had expired, and the command looked for
/// due requests.
pub(crate) fn ends_for_its_cause(commit: &Commit<'_>) -> Check {
    for (i, cause, answered) in commit.ends_now() {
        let id = &answered.external_id;
        let Some(row) = commit.after.requests.get(id) else {
            continue;
        };
        let expired = row.end_reason() == Some(EndReason::Expired);
        let finished = commit.was_finished(id);
        let holds = match cause {
            Cause::Released { .. } | Cause::Forced { .. } => !expired && !finished,
            _ if expired => commit.was_due(id),
            _ if finished => true,
            Cause::Expired => false,
            Cause::OwnerGone { owner } => row.owner.as_ref() == Some(owner),
            Cause::OwnerSilent { owner } => {
                row.owner.as_ref() == Some(owner) && was_silent(commit, i, owner)
            }
            Cause::Stale { age, owner } => {
                row.ttl.is_none()
                    && has_held_for(row, *age).is_some_and(|at| at <= commit.now)
                    && row.owner == *owner
                    && !owner
                        .as_ref()
                        .is_some_and(|owner| is_kept(commit, i, owner))
            }
        };
        let released = row.end_reason() == Some(EndReason::Released);
        let named = expired || finished && released || row.end_reason() == Some(cause.reason());
        ensure(holds && named, "P3", || {
            format!("{row:?} was ended by {cause:?}, which did not hold")
        })?;
    }
    Ok(())
}

/// P3: an end names the caller that asked for it, and nobody else.
pub(crate) fn names_the_caller_that_ended_it(commit: &Commit<'_>) -> Check {
    for (id, row) in &commit.after.requests {
        let asked_for = matches!(
            row.state,
            State::Released {
                reason: EndReason::Released | EndReason::Forced,
                ..
            }
        );
        ensure(asked_for || row.ended_by.is_none(), "P3", || {
            format!("{id} was not ended by {:?}", row.ended_by)
        })?;
    }
    for (_, cause, answered) in commit.ends_now() {
        let (Cause::Released { by } | Cause::Forced { by }, Some(row)) =
            (cause, commit.after.requests.get(&answered.external_id))
        else {
            continue;
        };
        ensure(row.ended_by == *by, "P3", || {
            format!("{row:?} was ended by {by:?}")
        })?;
    }
    Ok(())
}

/// P10: the rows have the session of the last answer to its owner, and the sessions of other owners are unchanged. A
/// session whose silence ended a request never goes on, and an owner that continues an ended session learns it.
pub(crate) fn sessions_are_kept(commit: &Commit<'_>) -> Check {
    let mut expected = commit.before.owners.clone();
    let answered = commit.commands.iter().zip(commit.outcomes);
    for (i, (command, outcome)) in answered.enumerate() {
        if let Command::Heartbeat {
            owner,
            must_exist: true,
            ..
        } = command
        {
            ensure(outcome.is_ok() == is_kept(commit, i, owner), "P10", || {
                format!("{owner} goes on with a session: {outcome:?}")
            })?;
        }
        match (command, outcome) {
            (Command::Heartbeat { owner, .. }, Ok(Reply::Heard { session, .. })) => {
                expected.insert(owner.clone(), session.clone());
            }
            (Command::Goodbye { owner }, Ok(Reply::Gone { .. })) => {
                expected.remove(owner);
            }
            (
                Command::End { cause, .. },
                Ok(Reply::Ended {
                    request, now: true, ..
                }),
            ) => {
                let silent = match cause {
                    Cause::OwnerSilent { owner } => expected.get_mut(owner),
                    _ => None,
                };
                let by_silence = request.end_reason() == Some(EndReason::OwnerDead);
                if let Some(session) = silent.filter(|_| by_silence) {
                    session.expires_at = Timestamp::UNIX_EPOCH;
                }
            }
            _ => {}
        }
    }
    ensure(expected == commit.after.owners, "P10", || {
        format!(
            "the rows have {:?}, the answers {expected:?}",
            commit.after.owners
        )
    })
}

/// Whether the owner's session had lapsed when the command at `i` had its turn. A session that the batch itself renewed
/// can't have lapsed, as the time is the same.
fn was_silent(commit: &Commit<'_>, i: usize, owner: &Owner) -> bool {
    let about_it = |command: &Command| match command {
        Command::Heartbeat {
            owner: who,
            must_exist: false,
            ..
        }
        | Command::Goodbye { owner: who } => who == owner,
        _ => false,
    };
    let session = commit.before.owners.get(owner);
    session.is_some_and(|session| session.expires_at <= commit.now)
        && !commit.commands[..i].iter().any(about_it)
}

/// Whether the owner's session went on when the command at `i` had its turn.
fn is_kept(commit: &Commit<'_>, i: usize, owner: &Owner) -> bool {
    let said = commit.commands[..i]
        .iter()
        .rev()
        .find_map(|command| match command {
            Command::Heartbeat {
                owner: who,
                must_exist: false,
                ..
            } if who == owner => Some(true),
            Command::Goodbye { owner: who } if who == owner => Some(false),
            _ => None,
        });
    let session = commit.before.owners.get(owner);
    said.unwrap_or(session.is_some_and(|session| session.expires_at > commit.now))
}

fn has_held_for(row: &Request, age: Duration) -> Option<Timestamp> {
    row.created_at.checked_add(age).ok()
}
