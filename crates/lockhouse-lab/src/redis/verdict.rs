//! Has locks go through scenes, on servers that are started for each, and says what happened and what broke.

use std::collections::BTreeMap;

use futures_util::future::{join_all, try_join_all};
use serde::Serialize;

use super::play::play;
use super::scene::Scene;
use super::servers::{Data, Servers};
use super::subject::{Part, Subject};
use super::told::told;
use crate::Failed;
use crate::history::{Promise, Violation};

/// The result of one lock in one scene.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// The lock.
    pub lock: &'static str,
    /// Its description in one line.
    pub about: &'static str,
    /// The scene.
    pub scene: &'static str,
    /// Its description in one line.
    pub scene_about: &'static str,
    /// The calls of the clients, in plain words and in the order of their answers.
    pub happened: Vec<String>,
    /// The promises that broke.
    pub broken: Vec<Broken>,
    /// The promises that the lock is expected to break there.
    pub expected: &'static [Promise],
    /// Why it is expected to break them, or to keep all.
    pub why: &'static str,
}

/// A promise that broke.
#[derive(Debug, Serialize)]
pub struct Broken {
    /// The broken promise.
    pub promise: Promise,
    /// A description.
    pub what: &'static str,
    /// The violation, with the operations that show it.
    pub shown: String,
}

impl Verdict {
    /// Whether the lock broke exactly the expected promises.
    pub fn is_as_expected(&self) -> bool {
        let broken = self.broken.iter().map(|broken| broken.promise);
        broken.eq(self.expected.iter().copied())
    }
}

/// Plays all `parts` at the same time, each on separate servers. `program` is the server to start, such as `redis-server`. The
/// results are in the order of `parts`.
///
/// # Errors
/// When a server does not start, or a call of it fails.
pub async fn try_out(program: &str, parts: &[Part]) -> Result<Vec<Verdict>, Failed> {
    let started = parts.iter().map(|part| servers(program, *part));
    // No server starts or ends while a scene is played, since that would delay its clients.
    let mut started = try_join_all(started).await?;
    let played = parts.iter().zip(&mut started);
    let played = join_all(played.map(|(part, servers)| verdict(*part, servers))).await;
    played.into_iter().collect()
}

async fn servers(program: &str, (subject, expected): Part) -> Result<Servers, Failed> {
    let (number, data) = match subject {
        Subject::Hand(lock) => (lock.servers(), Data::InMemory),
        Subject::Lockhouse => (1, Data::OnDisk),
    };
    let has_clocks = expected.scene == Scene::JumpedClock;
    Servers::start(program, number, data, has_clocks).await
}

async fn verdict((subject, expected): Part, servers: &mut Servers) -> Result<Verdict, Failed> {
    let scene = expected.scene;
    let played = play(scene, subject, servers, scene.name()).await?;
    let mut found: BTreeMap<Promise, Violation> = BTreeMap::new();
    for violation in played.broken {
        found.entry(violation.promise).or_insert(violation);
    }
    let broken = found.into_values().map(|violation| Broken {
        promise: violation.promise,
        what: violation.promise.words(),
        shown: violation.to_string(),
    });
    Ok(Verdict {
        lock: subject.name(),
        about: subject.about(),
        scene: scene.name(),
        scene_about: scene.about(),
        happened: told(&played.history),
        broken: broken.collect(),
        expected: expected.breaks,
        why: expected.why,
    })
}
