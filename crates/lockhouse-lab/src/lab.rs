//! Runs the same scenes with each strategy and with Lockhouse, and reports which promises broke, and how often.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use serde::Serialize;

use crate::Failed;
use crate::history::{Promise, Violation, check};
use crate::scene::{Scene, Subject};
use crate::strategy::{self, Server, Sql, Strategy};

/// The name of Lockhouse among the strategies.
pub const LOCKHOUSE: &str = "lockhouse";

/// How long to go on, and where to report progress.
pub struct Run<'a> {
    /// All scenes are played once, and then again until this time is over.
    pub time: Duration,
    /// Once this is true, no scene is begun.
    pub stop: &'a AtomicBool,
    /// Called after each round.
    pub progress: &'a (dyn Fn(&Verdict) + Sync),
}

impl Run<'static> {
    /// A run without progress reports that nothing stops.
    #[must_use]
    pub fn silent(time: Duration) -> Self {
        static GOES_ON: AtomicBool = AtomicBool::new(false);
        Self {
            time,
            stop: &GOES_ON,
            progress: &|_| {},
        }
    }
}

/// The result of one strategy.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// The strategy, or Lockhouse.
    pub strategy: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// How many times the strategy went through all scenes.
    pub rounds: u32,
    /// The promises that the strategy broke.
    pub broken: Vec<Broken>,
}

/// A promise that was broken.
#[derive(Debug, Serialize)]
pub struct Broken {
    /// The broken promise.
    pub promise: Promise,
    /// A description.
    pub what: &'static str,
    /// In how many rounds it broke.
    pub rounds: u32,
    /// The first violation, with the operations that show it.
    pub shown: String,
}

/// The strategies that can be written on the database of `urls`, which are one URL or those of a cluster's nodes.
pub fn strategies(urls: &[String]) -> Vec<&'static dyn Strategy> {
    let Some(server) = urls.first().and_then(|url| Server::of(url)) else {
        return Vec::new();
    };
    let takes_nodes = urls.len() > 1;
    let all = strategy::ALL.into_iter();
    all.filter(|strategy| strategy.runs_on(server) && strategy.takes_nodes() == takes_nodes)
        .collect()
}

/// Puts `strategy` through all scenes, in tables made for it on the database of `urls`, and drops the tables. On a cluster
/// its clients are spread over the nodes.
///
/// # Errors
/// When a call of the database fails.
pub async fn try_out(
    strategy: &'static dyn Strategy,
    urls: &[String],
    run: &Run<'_>,
) -> Result<Verdict, Failed> {
    let [url, ..] = urls else {
        return Err("there is no database to try it on".into());
    };
    let mut sql = Sql::open(url).await?;
    strategy::prepare(&mut sql, strategy).await?;
    let subject = Subject::Hand(strategy, urls.to_vec());
    let verdict = Verdict::new(strategy.name(), strategy.about());
    let verdict = rounds(verdict, &subject, run).await;
    strategy::clear(&mut sql).await?;
    verdict
}

/// Puts Lockhouse through all scenes, on semaphores that are created for it and deleted at the end. Its clients are
/// spread over `nodes`, of which there is at least one.
///
/// # Errors
/// When a call of Lockhouse fails.
pub async fn try_out_lockhouse(nodes: &[Lockhouse], run: &Run<'_>) -> Result<Verdict, Failed> {
    if nodes.is_empty() {
        return Err("there is no Lockhouse to try".into());
    }
    let subject = Subject::Lockhouse(nodes.to_vec());
    let verdict = Verdict::new(LOCKHOUSE, "Lockhouse itself");
    rounds(verdict, &subject, run).await
}

/// Drops all tables that an earlier run may have left on the database of `url`.
///
/// # Errors
/// When the database refuses.
pub async fn clear(url: &str) -> Result<(), Failed> {
    let mut sql = Sql::open(url).await?;
    Ok(strategy::clear(&mut sql).await?)
}

async fn rounds(mut verdict: Verdict, subject: &Subject, run: &Run<'_>) -> Result<Verdict, Failed> {
    let begun = Instant::now();
    let name = uuid::Uuid::new_v4().simple().to_string();
    while verdict.rounds == 0 || begun.elapsed() < run.time {
        let mut found: BTreeMap<Promise, Violation> = BTreeMap::new();
        for (i, scene) in Scene::ALL.into_iter().enumerate() {
            if run.stop.load(Ordering::Relaxed) {
                return Ok(verdict);
            }
            let tag = format!("lockhouse-lab-{}-{}-{i}", &name[..8], verdict.rounds);
            let (history, rows) = scene.play(subject, &tag).await?;
            for violation in check(&history, rows.as_ref()) {
                found.entry(violation.promise).or_insert(violation);
            }
        }
        verdict.add(found);
        (run.progress)(&verdict);
    }
    Ok(verdict)
}

impl Verdict {
    fn new(strategy: &'static str, about: &'static str) -> Self {
        Self {
            strategy,
            about,
            rounds: 0,
            broken: Vec::new(),
        }
    }

    fn add(&mut self, found: BTreeMap<Promise, Violation>) {
        self.rounds += 1;
        for (promise, violation) in found {
            match self.broken.iter_mut().find(|b| b.promise == promise) {
                Some(broken) => broken.rounds += 1,
                None => self.broken.push(Broken {
                    promise,
                    what: promise.words(),
                    rounds: 1,
                    shown: violation.to_string(),
                }),
            }
        }
        self.broken.sort_by_key(|broken| broken.promise);
    }
}
