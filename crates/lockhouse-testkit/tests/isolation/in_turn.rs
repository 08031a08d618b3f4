//! A semaphore's row that other processes use in turn. It is seldom free, but no process keeps it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::Place;
use tokio::time::{sleep, timeout};

use crate::rows::{Rows, lock, lock_statement, set_up};

/// How many sessions use the row.
const SESSIONS: usize = 3;
/// How long a session uses the row each time.
const USED_FOR: Duration = Duration::from_millis(120);

/// A call waits for the sessions before it, for several tries.
const LONGEST_CALL: Duration = Duration::from_secs(4);

const CALLS: u32 = 8;

/// P13. While another row is locked, an engine looks for locked rows before it waits for them. A row that others use in turn
/// seems locked at every look.
pub(crate) async fn a_row_that_others_use_in_turn_is_served_while_another_is_locked(place: Place) {
    let engine = place.client().await;
    set_up(&engine).await;
    let mut locked = lock(&place, Rows::Requests, 1).await;
    let is_over = AtomicBool::new(false);
    let sessions = join_all((0..SESSIONS).map(|_| use_in_turn(&place, &is_over)));
    let renewals = async {
        while !is_over.load(Ordering::Relaxed) {
            // The renewal needs the locked row, and its caller gives up.
            let renewal = engine.renew("held-1", None);
            let _ = timeout(Duration::from_secs(1), renewal).await;
        }
    };
    let calls = async {
        sleep(Duration::from_secs(1)).await;
        let mut longest = Duration::ZERO;
        for number in 0..CALLS {
            let began = Instant::now();
            let ask = engine
                .request_with_id(format!("in-turn-{number}"))
                .permits("locked-0", 1)
                .ttl(Duration::from_secs(600));
            let answer = ask.try_acquire().await;
            longest = longest.max(began.elapsed());
            answer.unwrap().forget();
        }
        is_over.store(true, Ordering::Relaxed);
        longest
    };
    let (_, (), longest) = tokio::join!(sessions, renewals, calls);
    println!("the longest call took {longest:?}");
    assert!(longest < LONGEST_CALL, "a call took {longest:?}");
    locked.run("ROLLBACK").await;
    drop(engine);
    place.clear().await;
}

/// Locks the row of one semaphore again and again, in a transaction each time.
async fn use_in_turn(place: &Place, is_over: &AtomicBool) {
    let mut session = Database::open(place.url()).await;
    let statement = lock_statement(place, Rows::Semaphores, 0);
    while !is_over.load(Ordering::Relaxed) {
        session.run("START TRANSACTION").await;
        session.run(&statement).await;
        sleep(USED_FOR).await;
        session.run("ROLLBACK").await;
    }
}
