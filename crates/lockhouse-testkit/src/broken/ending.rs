//! P3 and P4: stores in which the end of a request is not final.

use std::time::Duration;

use lockhouse_core::{Cause, Command, EndReason, Ended, Loaded, Reply, Timestamp, decide};

use super::sabotage::Sabotage;
use super::variant::{Variant, after, before};
use crate::history::Promise;

const FOR_LONG: Duration = Duration::from_secs(3_600);

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "a repeated release says that it ended the request",
        breaks: Promise::P3,
        sabotage: || {
            after(|_, decision| {
                for outcome in &mut decision.outcomes {
                    if let Ok(Reply::Ended { now, .. }) = outcome {
                        *now = true;
                    }
                }
            })
        },
    },
    Variant {
        name: "an end that is answered, and not saved",
        breaks: Promise::P3,
        sabotage: || {
            after(|_, decision| {
                if !decision.changes.ended.is_empty() {
                    decision.changes = lockhouse_core::Changes::default();
                }
            })
        },
    },
    Variant {
        name: "released by nobody",
        breaks: Promise::P3,
        sabotage: || {
            after(|_, decision| {
                for ended in &mut decision.changes.ended {
                    ended.reason = EndReason::Forced;
                }
            })
        },
    },
    Variant {
        name: "renew after expiry",
        breaks: Promise::P4,
        sabotage: || {
            before(|loaded, commands| {
                for command in commands {
                    if let Command::Renew { external_id, .. } = command {
                        unexpire(loaded, external_id);
                    }
                }
            })
        },
    },
    Variant {
        name: "release after expiry",
        breaks: Promise::P4,
        sabotage: || {
            before(|loaded, commands| {
                for command in commands {
                    if let Command::End {
                        external_id,
                        cause: Cause::Released { .. },
                    } = command
                    {
                        unexpire(loaded, external_id);
                    }
                }
            })
        },
    },
    Variant {
        name: "stale at any age",
        breaks: Promise::P3,
        sabotage: || {
            Sabotage::new(true, |loaded, commands| {
                let stale = |command: &Command| match command {
                    Command::End {
                        external_id,
                        cause: Cause::Expired,
                    } => Command::End {
                        external_id: external_id.clone(),
                        cause: Cause::Stale {
                            age: Duration::ZERO,
                            owner: None,
                        },
                    },
                    other => other.clone(),
                };
                let commands: Vec<_> = commands.iter().map(stale).collect();
                decide(loaded, &commands)
            })
        },
    },
    Variant {
        name: "a goodbye that is answered, and not saved",
        breaks: Promise::P3,
        sabotage: || {
            Sabotage::new(true, |loaded, commands| {
                let requests = loaded.requests.clone();
                let mut decision = decide(loaded, commands);
                let is_owned = |ended: &Ended| {
                    let request = requests.get(&ended.external_id);
                    request.is_some_and(|request| request.owner.is_some())
                };
                if decision.changes.ended.iter().any(is_owned) {
                    decision.changes = lockhouse_core::Changes::default();
                }
                decision
            })
        },
    },
    Variant {
        name: "an owner with a session is taken to be silent",
        breaks: Promise::P8,
        sabotage: || {
            before(|loaded, _| {
                for session in loaded.owners.values_mut() {
                    session.expires_at = loaded.now;
                }
            })
        },
    },
    Variant {
        name: "sweep without re-check",
        breaks: Promise::P8,
        sabotage: || {
            Sabotage::new(true, |loaded, commands| {
                let swept = |command: &Command| match command {
                    Command::End {
                        external_id,
                        cause: Cause::Expired,
                    } => Command::release(external_id.clone()),
                    other => other.clone(),
                };
                let trusting: Vec<_> = commands.iter().map(swept).collect();
                let mut decision = decide(loaded, &trusting);
                if trusting != commands {
                    for ended in &mut decision.changes.ended {
                        ended.reason = EndReason::Expired;
                    }
                }
                decision
            })
        },
    },
];

/// Moves the request's expiry after now.
fn unexpire(loaded: &mut Loaded, id: &lockhouse_core::ExternalId) {
    let later = loaded.now.checked_add(FOR_LONG).unwrap_or(Timestamp::MAX);
    if let Some(request) = loaded.requests.get_mut(id) {
        request.expires_at = request.expires_at.map(|at| at.max(later));
    }
}
