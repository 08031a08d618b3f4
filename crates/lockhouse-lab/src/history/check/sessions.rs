//! Sessions: an owner's heartbeats keep its requests.
//!
//! A session lasts for the TTL of the last heartbeat. A heartbeat without an answer may take effect at any time after its
//! beginning, or never.

use super::slack::SLACK_US;
use crate::history::{Answer, Call, NEVER, Operation};

/// The first moment from `from` on at which a session of these heartbeats, in the order in which they
/// were begun, may have lapsed.
pub(super) fn may_lapse_from(beats: &[&Operation], from: u64) -> u64 {
    let lapses = beats.iter().map(|beat| {
        let lapses = lasts_to(beat, beat.begun)
            .saturating_sub(SLACK_US)
            .max(from);
        if is_gone_on_with(beats, beat, lapses) {
            NEVER
        } else {
            lapses
        }
    });
    lapses.min().unwrap_or(NEVER)
}

/// When a session of these heartbeats has surely lapsed. That is never if there is a goodbye, after which there is no
/// session, or if an unanswered heartbeat may be heard at any time.
pub(super) fn has_lapsed_by(beats: &[&Operation], goodbyes: &[&Operation]) -> u64 {
    if !goodbyes.is_empty() {
        return NEVER;
    }
    let lapses = beats.iter().map(|beat| match beat.answer {
        Answer::Done => lasts_to(beat, beat.ended),
        _ => NEVER,
    });
    lapses.max().unwrap_or(NEVER)
}

/// Whether a heartbeat after `beat` was surely heard before `before`.
fn is_gone_on_with(beats: &[&Operation], beat: &Operation, before: u64) -> bool {
    if beat.answer != Answer::Done {
        return false;
    }
    let later = beats.partition_point(|other| other.begun < beat.ended);
    let next = beats[later..].iter().find(|o| o.answer == Answer::Done);
    next.is_some_and(|next| next.ended < before)
}

/// The last heartbeat that was surely heard before `earliest`, and the time until which its session surely goes on, if
/// heartbeats up to `latest` may replace it. `None` if no heartbeat was surely heard.
pub(super) fn surely_goes_on_to<'a>(
    beats: &[&'a Operation],
    earliest: u64,
    latest: u64,
) -> Option<(u64, &'a Operation)> {
    let heard = |beat: &&&Operation| beat.answer == Answer::Done && beat.ended <= earliest;
    let last = beats.iter().rfind(heard)?;
    let replaced = |beat: &Operation| beat.answer == Answer::Done && beat.ended <= last.begun;
    let others = beats
        .iter()
        .filter(|beat| !replaced(beat) && beat.begun <= latest);
    let to = others.map(|beat| lasts_to(beat, beat.begun.max(last.begun)));
    Some((to.min()?, *last))
}

/// When the session lapses if the heartbeat was heard at `heard`.
fn lasts_to(beat: &Operation, heard: u64) -> u64 {
    match beat.call {
        Call::Heartbeat { ttl_us, .. } => heard.saturating_add(ttl_us),
        _ => heard,
    }
}
