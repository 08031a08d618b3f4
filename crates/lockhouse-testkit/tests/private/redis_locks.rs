//! Each lock that articles show on Redis breaks what it is said to break, on real servers; Lockhouse on Redis breaks nothing
//! in the same scenes.

use futures_util::future::join_all;
use lockhouse::Lockhouse;
use lockhouse_lab::history::Promise;
use lockhouse_lab::redis::{ALL, Lock, Nodes, Player, Scene, play};
use lockhouse_testkit::place::server_url;
use lockhouse_testkit::redis_node::RedisNodes;

/// So many servers Redlock takes.
const NODES: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lock_on_redis_breaks_the_promise_that_it_is_here_for() {
    if server_url("LOCKHOUSE_TEST_REDIS_URL").is_none() {
        return;
    }
    let scenes = ALL.iter().flat_map(|lock| {
        let breaks = lock.breaks().iter();
        breaks.map(move |(scene, promise)| Staged::new(*lock, *scene, *promise))
    });
    // No server starts or ends while a scene is played, since that would delay its clients.
    let staged = join_all(scenes).await;
    let played = join_all(staged.iter().map(Staged::unbroken)).await;
    let unbroken: Vec<_> = played.into_iter().flatten().collect();
    assert!(unbroken.is_empty(), "{unbroken:#?}");
}

/// P1, P4, P7, P8, P9 and P10. Lockhouse's one server keeps its data on disk. Where its clock jumps, holds end by the clock, and
/// the fences tell which is the later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lockhouse_on_redis_breaks_nothing_in_these_scenes() {
    if server_url("LOCKHOUSE_TEST_REDIS_URL").is_none() {
        return;
    }
    for scene in Scene::ALL {
        let nodes = RedisNodes::start(1, true, scene == Scene::JumpedClock).await;
        let lockhouse = Lockhouse::connect(&nodes.urls()[0]).await.unwrap();
        let player = Player::Lockhouse(lockhouse);
        let name = format!("{scene:?}");
        let found = play(scene, &player, &nodes, &name).await.unwrap();
        assert!(found.is_empty(), "{scene:?}: {found:#?}");
    }
}

/// A script that looks at the owner is enough where nothing but a release is late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_is_refused_by_a_lock_that_looks_at_the_owner() {
    if server_url("LOCKHOUSE_TEST_REDIS_URL").is_none() {
        return;
    }
    let nodes = RedisNodes::start(NODES, false, false).await;
    let redlock = ALL.into_iter().find(|lock| lock.name() == "redlock");
    let player = Player::Hand(redlock.unwrap());
    for scene in [Scene::LateRelease, Scene::SlowRelease] {
        let name = format!("{scene:?}");
        let found = play(scene, &player, &nodes, &name).await.unwrap();
        assert!(found.is_empty(), "{scene:?}: {found:#?}");
    }
}

/// A scene of a lock, on servers of its own.
struct Staged {
    lock: &'static dyn Lock,
    scene: Scene,
    promise: Promise,
    nodes: RedisNodes,
}

impl Staged {
    async fn new(lock: &'static dyn Lock, scene: Scene, promise: Promise) -> Self {
        let nodes = if lock.name().starts_with("redlock") {
            NODES
        } else {
            1
        };
        let nodes = RedisNodes::start(nodes, false, scene == Scene::JumpedClock).await;
        Self {
            lock,
            scene,
            promise,
            nodes,
        }
    }

    /// The findings, if the lock does not break the expected promise.
    async fn unbroken(&self) -> Option<String> {
        let (promise, name) = (
            self.promise,
            format!("{}-{:?}", self.lock.name(), self.scene),
        );
        let player = Player::Hand(self.lock);
        let found = play(self.scene, &player, &self.nodes, &name).await.unwrap();
        let is_broken = found.iter().any(|violation| violation.promise == promise);
        if is_broken {
            println!("{name} breaks {promise}");
        }
        (!is_broken).then(|| format!("{name} does not break {promise}: {found:#?}"))
    }
}
