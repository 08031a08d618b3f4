//! The lab on a cluster. Locks that are right on one server and wrong on several writers must break there, and Lockhouse
//! must not.

use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use lockhouse_lab::lab::{self, Run, Verdict};

use super::nodes::{NODES, Nodes};

/// How long a strategy that must break is tried. It breaks when a node lags at the right moment.
const BREAKS_WITHIN: Duration = Duration::from_secs(600);

/// Runs the strategies that need several nodes in the lab, each until it breaks its promise, and
/// Lockhouse for `time`. Returns the failures in words.
///
/// # Panics
/// If a node refuses a command.
pub(super) async fn lab(nodes: &Nodes, time: Duration) -> Vec<String> {
    let urls: Vec<_> = (0..NODES).map(|nth| nodes.url(nth)).collect();
    let mut wrong = Vec::new();
    for strategy in lab::strategies(&urls) {
        let (begun, promise) = (Instant::now(), strategy.breaks());
        let mut rounds = 0;
        let is_caught = loop {
            let verdict = lab::try_out(strategy, &urls, &Run::silent(Duration::ZERO)).await;
            let verdict = verdict.unwrap();
            rounds += verdict.rounds;
            if verdict
                .broken
                .iter()
                .any(|broken| broken.promise == promise)
            {
                break true;
            }
            if begun.elapsed() > BREAKS_WITHIN {
                break false;
            }
        };
        let name = strategy.name();
        eprintln!("  {name}: {promise} broken: {is_caught}, after {rounds} rounds");
        if !is_caught {
            wrong.push(format!("{name} did not break {promise} in {rounds} rounds"));
        }
    }
    let mut lockhouses = Vec::new();
    for url in &urls {
        lockhouses.push(Lockhouse::connect(url).await.unwrap());
    }
    let own = lab::try_out_lockhouse(&lockhouses, &Run::silent(time))
        .await
        .unwrap();
    eprintln!("  {}: {} rounds", own.strategy, own.rounds);
    wrong.extend(broken(&own));
    wrong
}

fn broken(verdict: &Verdict) -> impl Iterator<Item = String> {
    let broken = verdict.broken.iter();
    broken.map(|broken| {
        format!(
            "{} in {} rounds: {}",
            broken.promise, broken.rounds, broken.shown
        )
    })
}
