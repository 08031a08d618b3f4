//! Each hand-written lock breaks its expected promise, and Lockhouse breaks none in the same scenes, on every database.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_lab::lab::{self, Broken, Run, Verdict};
use lockhouse_lab::strategy::Strategy;
use lockhouse_testkit::place::Place;

lockhouse_testkit::on_each_store!(sql: hand_written_locks_break);

lockhouse_testkit::on_each_store!(lockhouse_goes_through_the_same_scenes);

/// P1, P4, P5, P6, P8, P9 and P10.
async fn hand_written_locks_break(place: Place) {
    let urls = [place.url().to_owned()];
    let strategies = lab::strategies(&urls);
    assert!(strategies.len() >= 6);
    for strategy in strategies {
        let verdict = caught(strategy, &urls).await;
        println!("{:?}", summary(&verdict));
        let shown = |broken: &Broken| broken.shown.contains("client");
        assert!(verdict.broken.iter().all(shown), "{verdict:#?}");
    }
    place.clear().await;
}

/// Tries several times, as a machine that stands still during a race may keep two clients apart.
async fn caught(strategy: &'static dyn Strategy, urls: &[String]) -> Verdict {
    let mut tries = 0;
    loop {
        let verdict = lab::try_out(strategy, urls, &Run::silent(Duration::ZERO))
            .await
            .unwrap();
        let breaks = strategy.breaks();
        if verdict.broken.iter().any(|broken| broken.promise == breaks) {
            return verdict;
        }
        tries += 1;
        assert!(tries < 4, "{breaks} is not in {verdict:#?}");
    }
}

async fn lockhouse_goes_through_the_same_scenes(place: Place) {
    let lockhouse = [place.client().await];
    let run = Run::silent(Duration::from_secs(2));
    let at_once = [
        lab::try_out_lockhouse(&lockhouse, &run),
        lab::try_out_lockhouse(&lockhouse, &run),
    ];
    for verdict in join_all(at_once).await {
        let verdict = verdict.unwrap();
        assert!(verdict.broken.is_empty(), "{verdict:#?}");
    }
    let left = lockhouse[0].semaphores(None, 10).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    place.clear().await;
}

fn summary(verdict: &Verdict) -> (&str, u32, Vec<String>) {
    let broken = verdict.broken.iter();
    let broken = broken.map(|broken| format!("{} {}", broken.promise, broken.rounds));
    (verdict.strategy, verdict.rounds, broken.collect())
}
