//! Runs on clusters of three nodes. Each node has a server, and clients put load on the same semaphores through all servers.
//! Meanwhile the run kills and restarts nodes and servers, and changes the writer. At the end it checks the promises
//! against the answers that clients got, and against the rows of every node.
//!
//! `scripts/cluster-run` starts a cluster for it.

mod callers;
mod lab;
mod load;
mod nodes;
mod report;
mod router;
mod servers;

pub use callers::callers;
pub use lab::lab;
pub use nodes::{NODES, Nodes, Topology};
pub use report::Outcome;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::history::{Answer, Recorded, Recorder, now_us};
use crate::place::empty_database;
use load::{SEMAPHORES, TEMPLATE, UNUSED, Worker};
use nodes::DATABASE;
use report::{Incident, all_serve};
use router::Router;
use servers::Server;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// For how long faults are begun.
    pub duration: Duration,
    /// How many clients there are at each server, each doing one thing after the other.
    pub clients: usize,
    /// The seed of the load and the faults.
    pub seed: u64,
}

/// A fault of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// SIGKILL of a node; of the writer, where there is one.
    KillNode(usize),
    /// SIGSTOP of a node for some seconds.
    StopNode(usize),
    /// A node takes no writes for some seconds, while others do; where there is one writer, another is
    /// made it, for good.
    RefuseWrites(usize),
    /// SIGKILL of a server.
    KillServer(usize),
}

/// Runs on `nodes`. `program` is `lockhouse`.
///
/// # Panics
/// If the cluster does not come back by itself, which no promise is about.
pub async fn run(nodes: &Nodes, program: &Path, size: Size) -> Outcome {
    nodes.settled().await;
    let writer = nodes.writers().await[0];
    empty_database(&nodes.server(writer), DATABASE).await;
    let router = match nodes.topology {
        Topology::SinglePrimary => Some(Router::before(nodes.clone()).await),
        _ => None,
    };
    let store = |nth| match &router {
        Some(router) => router.url(),
        None => nodes.url(nth),
    };
    let (recorder, stop) = (Arc::new(Recorder::default()), Arc::default());
    let first = Recorded::new(first_client(&store(0)).await, &recorder, 0);
    for (name, capacity) in SEMAPHORES {
        assert_eq!(first.define(name, capacity).await, Answer::Done);
    }
    let (pattern, capacity) = TEMPLATE;
    let templated = first.template(pattern, capacity, UNUSED).await;
    assert_eq!(templated, Answer::Done);
    let mut servers = Vec::new();
    for nth in 0..NODES {
        servers.push(Server::start(program, &store(nth)).await);
    }
    let urls: Vec<_> = servers.iter().map(|server| server.url.clone()).collect();
    let mut workers = JoinSet::new();
    for home in 0..NODES {
        for nth in 0..size.clients {
            let worker = Worker::of(&urls, &recorder, home, nth, size.seed).await;
            workers.spawn(worker.run(Arc::clone(&stop)));
        }
    }
    let incidents = faults(nodes, &mut servers, &recorder, size).await;
    finish(&stop, workers).await;
    nodes.settled().await;
    Outcome::of(nodes, recorder.history(), incidents).await
}

/// The router takes a moment to find the writer.
async fn first_client(url: &str) -> Lockhouse {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match Lockhouse::connect(url).await {
            Ok(lockhouse) => return lockhouse,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn finish(stop: &Arc<AtomicBool>, workers: JoinSet<()>) {
    stop.store(true, Ordering::Relaxed);
    workers.join_all().await;
}

/// One after the other, with some seconds of peace between them.
async fn faults(
    nodes: &Nodes,
    servers: &mut [Server],
    recorder: &Recorder,
    size: Size,
) -> Vec<Incident> {
    let mut random = fastrand::Rng::with_seed(size.seed);
    let until = Instant::now() + size.duration;
    let mut incidents = Vec::new();
    let mut turn = 0;
    sleep(Duration::from_secs(3)).await;
    while Instant::now() < until {
        let nth = random.usize(..NODES);
        let fault = match turn % 4 {
            0 => Fault::KillNode(node_to_lose(nodes, nth).await),
            1 => Fault::KillServer(nth),
            2 => Fault::StopNode(node_to_lose(nodes, nth).await),
            _ => Fault::RefuseWrites(node_to_lose(nodes, nth).await),
        };
        turn += 1;
        let begun = now_us();
        let lasts = Duration::from_millis(random.u64(2_000..8_000));
        let took = befall(nodes, servers, fault, lasts).await;
        let mended = now_us();
        sleep(Duration::from_secs(5)).await;
        nodes.settled().await;
        let bound = fault.bound(nodes.topology);
        until_all_serve(recorder, mended, bound).await;
        let incident = Incident {
            what: format!("{} {}", fault.name(), fault.on(nodes)),
            bound,
            begun,
            mended,
            came_back_in: took,
        };
        println!(
            "{} s left, {} operations: {}",
            until.saturating_duration_since(Instant::now()).as_secs(),
            recorder.history().len(),
            incident.what
        );
        incidents.push(incident);
    }
    incidents
}

/// Waits for that, for as long as it may take.
async fn until_all_serve(recorder: &Recorder, mended: u64, bound: Duration) {
    let patience = timeout(bound, async {
        while !all_serve(&recorder.history(), mended) {
            sleep(Duration::from_millis(500)).await;
        }
    });
    // The report tells of who is late.
    let _ = patience.await;
}

/// Where one is the writer, that one.
async fn node_to_lose(nodes: &Nodes, nth: usize) -> usize {
    match (nodes.topology, &nodes.writers().await[..]) {
        (Topology::SinglePrimary, [writer]) => *writer,
        _ => nth,
    }
}

/// Begins it and ends it; how long a node took to come back.
async fn befall(
    nodes: &Nodes,
    servers: &mut [Server],
    fault: Fault,
    lasts: Duration,
) -> Option<Duration> {
    match fault {
        Fault::KillNode(nth) => {
            nodes.signal(nth, "KILL").await;
            sleep(lasts).await;
            Some(nodes.bring_back(nth).await)
        }
        Fault::StopNode(nth) => {
            nodes.signal(nth, "STOP").await;
            sleep(lasts).await;
            nodes.signal(nth, "CONT").await;
            None
        }
        Fault::RefuseWrites(nth) => {
            nodes.refuse_writes(nth).await;
            sleep(lasts).await;
            nodes.take_writes(nth).await;
            None
        }
        Fault::KillServer(nth) => {
            servers[nth].kill().await;
            sleep(lasts / 4).await;
            servers[nth].again().await;
            None
        }
    }
}

impl Fault {
    /// How long it may take until somebody is served again, and from its end until all are.
    ///
    /// Lockhouse itself needs some seconds: a call that hangs ends within 10 s, and a server that
    /// was killed connects again. The rest is the cluster's time. Group Replication suspects a
    /// member that is silent after 5 s, expels it after 5 s more, and then elects; a primary that
    /// is only stopped comes back, is expelled, and joins again: 29 s were measured. Galera takes 5
    /// to 15 s to declare a silent node dead, with no writes meanwhile, and a node that comes back
    /// may need a copy of the data: 27 s.
    fn bound(self, topology: Topology) -> Duration {
        let is_costly = topology != Topology::MultiPrimary && !matches!(self, Fault::KillServer(_));
        Duration::from_secs(if is_costly { 60 } else { 30 })
    }

    fn name(self) -> &'static str {
        match self {
            Fault::KillNode(_) => "kill -9 of node",
            Fault::StopNode(_) => "SIGSTOP of node",
            Fault::RefuseWrites(_) => "no writes at node",
            Fault::KillServer(_) => "kill -9 of server",
        }
    }

    fn on(self, nodes: &Nodes) -> String {
        match self {
            Fault::KillNode(nth) | Fault::StopNode(nth) | Fault::RefuseWrites(nth) => {
                nodes.name(nth)
            }
            Fault::KillServer(nth) => format!("at {}", nodes.name(nth)),
        }
    }
}
