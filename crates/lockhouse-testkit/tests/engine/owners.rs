//! Owners that leave while a call of theirs is under way.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::try_join_all;
use lockhouse_core::{Ask, Command, Count, ExternalId, Owner, SemaphoreName};

use crate::hooked::{hooked, slow_to_look};

fn of_job(id: &str) -> Ask {
    let permit = (SemaphoreName::parse("s").unwrap(), Count::ONE);
    let mut ask = Ask::new(ExternalId::parse(id).unwrap(), [permit]).unwrap();
    ask.owner = Some(Owner::parse("job").unwrap());
    ask
}

/// P10: another process's ask is granted after the owner's requests ended, and just before its session does. Nothing else
/// would ever free it.
#[tokio::test]
async fn requests_granted_during_a_goodbye_are_released_too() {
    let late = AtomicBool::new(true);
    let lockhouse = hooked(move |batch| {
        let leaves = |command: &Command| matches!(command, Command::Goodbye { .. });
        let now = batch.commands.iter().any(leaves) && late.swap(false, SeqCst);
        Ok(now
            .then(|| Command::acquire(of_job("late")))
            .into_iter()
            .collect())
    });
    lockhouse.define("s", 2).await.unwrap();
    let minute = Duration::from_secs(60);
    lockhouse.heartbeat("job", minute).await.unwrap();
    lockhouse
        .acquire(of_job("early"), Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(lockhouse.goodbye("job").await.unwrap(), 2);
    assert!(!lockhouse.find("late").await.unwrap().is_live());
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 0);
}

/// P1: a goodbye that is under way frees nothing of the session that comes after it.
#[tokio::test]
async fn a_session_begins_when_the_last_of_its_name_has_said_its_goodbye() {
    let lockhouse = slow_to_look(Duration::from_millis(200));
    lockhouse.define("s", 2).await.unwrap();
    let minute = Duration::from_secs(60);
    drop(lockhouse.session("job", minute).await.unwrap());
    let session = lockhouse.session("job", minute).await.unwrap();
    let permit = session.semaphore("s").try_acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let found = lockhouse.find(permit.external_id()).await.unwrap();
    assert!(found.is_live(), "{found:?}");
    assert!(!lockhouse.heartbeat("job", minute).await.unwrap().began);
}

/// P10: two goodbyes for one owner at once are both answered when all its requests have ended.
#[tokio::test]
async fn a_goodbye_is_answered_when_all_is_released_by_any_call() {
    const HELD: u32 = 1_200;
    // The other goodbye ends all requests that the first two looks find, just before this one does.
    let by_other = AtomicU32::new(0);
    let lockhouse = hooked(move |batch| {
        let is_end = |command: &&Command| matches!(command, Command::End { .. });
        let ends: Vec<_> = batch.commands.iter().filter(is_end).cloned().collect();
        let before = by_other.fetch_add(ends.len() as u32, SeqCst);
        Ok(if before < 1_000 { ends } else { Vec::new() })
    });
    lockhouse.define("s", HELD).await.unwrap();
    lockhouse
        .heartbeat("job", Duration::from_secs(60))
        .await
        .unwrap();
    let asks = (0..HELD).map(|nth| lockhouse.acquire(of_job(&format!("r-{nth}")), Duration::ZERO));
    try_join_all(asks).await.unwrap();
    lockhouse.goodbye("job").await.unwrap();
    assert_eq!(lockhouse.status("s").await.unwrap().semaphore.in_use, 0);
}
