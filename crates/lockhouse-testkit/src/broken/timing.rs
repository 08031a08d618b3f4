//! P8 and P10: stores that use a wrong clock or a wrong TTL, or that end nothing in time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockhouse_core::{Timestamp, decide};

use super::sabotage::Sabotage;
use super::variant::{Variant, after, before};
use crate::drill::FAST;
use crate::history::Promise;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "client clock for expiry",
        breaks: Promise::P8,
        sabotage: || {
            before(|loaded, commands| {
                let ids = commands.iter().filter_map(|command| command.external_id());
                if ids.into_iter().any(|id| id.as_str().starts_with(FAST)) {
                    loaded.now = loaded.now.checked_add(HOUR).unwrap();
                }
            })
        },
    },
    Variant {
        name: "clock read before the locks",
        breaks: Promise::P8,
        sabotage: clock_read_before,
    },
    Variant {
        name: "half of the time to live",
        breaks: Promise::P8,
        sabotage: || {
            after(|_, decision| {
                for request in &mut decision.changes.granted {
                    let half = request.ttl.map(|ttl| ttl.as_duration() / 2);
                    let half = half.and_then(|half| request.created_at.checked_add(half).ok());
                    request.expires_at = half;
                }
            })
        },
    },
    Variant {
        name: "nothing ever expires",
        breaks: Promise::P10,
        sabotage: || {
            Sabotage::new(true, |mut loaded, commands| {
                for request in loaded.requests.values_mut() {
                    request.expires_at = None;
                }
                decide(loaded, commands)
            })
        },
    },
    Variant {
        name: "silence frees nothing",
        breaks: Promise::P10,
        sabotage: || {
            before(|loaded, _| {
                for session in loaded.owners.values_mut() {
                    let later = session.expires_at.max(loaded.now).checked_add(HOUR);
                    session.expires_at = later.unwrap();
                }
            })
        },
    },
];

/// The time is that of the first batch, as if the transaction had begun then.
fn clock_read_before() -> Arc<Sabotage> {
    let begun: Mutex<Option<Timestamp>> = Mutex::default();
    before(move |loaded, _| {
        loaded.now = *begun.lock().unwrap().get_or_insert(loaded.now);
    })
}
