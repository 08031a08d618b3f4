//! P7: stores whose fences do not rise.

use super::variant::{Variant, after, before, granted_now};
use crate::history::Promise;

pub(super) const VARIANTS: &[Variant] = &[
    Variant {
        name: "a fence twice",
        breaks: Promise::P7,
        sabotage: || {
            after(|loaded, decision| {
                for semaphore in &mut decision.changes.semaphores {
                    let before = loaded.semaphores.get(&semaphore.name);
                    semaphore.fence = before.map_or(0, |semaphore| semaphore.fence);
                }
            })
        },
    },
    Variant {
        name: "fences restart when a semaphore is created again",
        breaks: Promise::P7,
        sabotage: || {
            before(|loaded, _| {
                let gone = loaded.semaphores.values_mut().filter(|s| !s.exists());
                gone.for_each(|semaphore| semaphore.fence = 0);
            })
        },
    },
    Variant {
        name: "answers before the fence is known",
        breaks: Promise::P7,
        sabotage: || {
            after(|_, decision| {
                for request in granted_now(decision) {
                    request.permits.iter_mut().for_each(|p| p.fence = 0);
                }
            })
        },
    },
];
