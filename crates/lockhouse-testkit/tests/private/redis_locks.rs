//! Each lock that articles show on Redis breaks the expected promises on real servers. Lockhouse on Redis breaks none in the
//! same scenes. `lockhouse-lab redis` plays them with the same code.

use lockhouse_lab::redis::{Part, Scene, Subject, try_out};
use lockhouse_testkit::place::server_url;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lock_on_redis_breaks_the_promise_that_it_is_here_for() {
    as_expected(hand_written(true)).await;
}

/// A script that checks the owner is enough if only a release is late. One command that sets a key with its TTL is enough if a
/// client dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_redis_break_nothing_in_the_scenes_that_they_withstand() {
    as_expected(hand_written(false)).await;
}

/// P1, P4, P7, P8, P9 and P10. Lockhouse's only server keeps its data on disk. If its clock jumps, holds end by the clock, and
/// fences tell which grant is later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lockhouse_on_redis_breaks_nothing_in_these_scenes() {
    let parts: Vec<_> = Subject::Lockhouse.parts().collect();
    let scenes = parts.iter().map(|(_, expected)| expected.scene);
    assert!(scenes.eq(Scene::ALL));
    assert!(parts.iter().all(|part| !breaks(part)));
    as_expected(parts).await;
}

/// Plays all parts at once. Skips the test without a Redis server.
async fn as_expected(parts: Vec<Part>) {
    if server_url("LOCKHOUSE_TEST_REDIS_URL").is_none() {
        return;
    }
    let verdicts = try_out("redis-server", &parts).await.unwrap();
    let others = verdicts.iter().filter(|verdict| !verdict.is_as_expected());
    let others: Vec<_> = others.collect();
    assert!(!verdicts.is_empty() && others.is_empty(), "{others:#?}");
}

/// The scenes of all locks except Lockhouse in which a promise breaks, or in which none does.
fn hand_written(is_broken: bool) -> Vec<Part> {
    let locks = Subject::ALL.into_iter();
    let locks = locks.filter(|lock| matches!(lock, Subject::Hand(_)));
    let parts = locks.flat_map(Subject::parts);
    parts.filter(|part| breaks(part) == is_broken).collect()
}

fn breaks((_, expected): &Part) -> bool {
    !expected.breaks.is_empty()
}
