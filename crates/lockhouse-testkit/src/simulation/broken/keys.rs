//! Stores that break slots, or names that were purged. The checks find these breaks without a client.

use std::sync::Arc;

use lockhouse_core::{Decision, Epoch, Loaded, Reply, Slots, decide};

use crate::broken::{Sabotage, before};

/// The row with the highest fence of purged names is not read.
pub(super) fn forgetting_epochs() -> Arc<Sabotage> {
    before(|loaded, _| {
        loaded.semaphores.remove(&Epoch::semaphore());
    })
}

/// Each permit of one slot gets the highest free slot.
pub(super) fn taking_highest_slots() -> Arc<Sabotage> {
    Sabotage::new(true, |loaded, commands| {
        let mut decision = decide(loaded.clone(), commands);
        // With more commands, an ask may have taken slots that another command freed.
        if commands.len() == 1 {
            take_highest(&loaded, &mut decision);
        }
        decision
    })
}

fn take_highest(loaded: &Loaded, decision: &mut Decision) {
    let Decision { outcomes, changes } = decision;
    let [
        Ok(Reply::Granted {
            request, now: true, ..
        }),
    ] = &mut outcomes[..]
    else {
        return;
    };
    for permit in &mut request.permits {
        let Some(row) = changes
            .semaphores
            .iter_mut()
            .find(|row| row.name == permit.semaphore)
        else {
            continue;
        };
        let taken = loaded
            .semaphores
            .get(&row.name)
            .and_then(|row| row.slots.clone());
        let (Some(mut taken), Some(slots)) = (taken, &mut permit.slots) else {
            continue;
        };
        let free = (0..row.capacity.value())
            .rev()
            .filter(|slot| !taken.contains(*slot));
        *slots = Slots::of(free.take(slots.len() as usize)).expect("each comes once");
        taken.extend(slots);
        row.slots = Some(taken);
    }
    changes.granted = vec![request.clone()];
}
