//! Semaphores that follow their template.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockhouse::Upkeep;
use lockhouse_core::Command;
use lockhouse_core::store::{Error, Kind};

use crate::hooked::hooked;

/// More than are looked for at once.
const LOCKED: usize = 450;

/// Those that cannot follow now are found first, whenever some are looked for.
#[tokio::test]
async fn semaphores_follow_that_are_found_behind_hundreds_of_locked_ones() {
    let are_locked = Arc::new(AtomicBool::new(false));
    let lockhouse = hooked({
        let are_locked = Arc::clone(&are_locked);
        move |batch| {
            let is_locked = |command: &Command| match command {
                Command::Follow { name } => name.as_str().starts_with("made/locked"),
                _ => false,
            };
            let is_locked = batch.commands.iter().any(is_locked);
            match is_locked && are_locked.load(Ordering::Relaxed) {
                true => Err(Error::new(Kind::Locked, "a row is locked")),
                false => Ok(Vec::new()),
            }
        }
    });
    lockhouse.template("made/*", 1).await.unwrap();
    let names = (0..LOCKED).map(|i| format!("made/locked-{i:03}"));
    let names: Vec<_> = names.chain(["made/not-locked".to_owned()]).collect();
    for name in &names {
        let permit = lockhouse.semaphore(name).acquire().await.unwrap();
        permit.release().await.unwrap();
    }
    are_locked.store(true, Ordering::Relaxed);
    lockhouse.template("made/*", 3).await.unwrap();
    let capacity = async |name: &str| {
        let status = lockhouse.status(name).await.unwrap();
        status.semaphore.capacity.value()
    };
    assert_eq!(capacity("made/not-locked").await, 3);
    assert_eq!(capacity(&names[0]).await, 1);
    are_locked.store(false, Ordering::Relaxed);
    lockhouse.sweep(&Upkeep::default()).await.unwrap();
    for name in &names {
        assert_eq!(capacity(name).await, 3, "{name}");
    }
}
