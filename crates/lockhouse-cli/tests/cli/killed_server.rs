//! P9: a server killed in the middle of its clients' load, and started again, leaves every client
//! with the one true answer, and rows that keep P1, P2 and P3.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::binary::lockhouse;
use lockhouse::{
    Ask, Code, Count, EndReason, Error, ExternalId, Lockhouse, Request, SemaphoreName,
};
use lockhouse_testkit::place::{self, Place};
use lockhouse_testkit::{audit, rows};
use tokio::task::JoinSet;

const CLIENTS: usize = 64;
const ROUNDS: usize = 30;
const KILLS: usize = 3;
const SEMAPHORES: [(&str, u32); 3] = [("north", 20), ("middle", 12), ("south", 30)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_on_sqlite_leaves_the_one_true_answer() {
    kill_under_load(place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_on_mysql_leaves_the_one_true_answer() {
    kill_under_load(place::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_on_mariadb_leaves_the_one_true_answer() {
    kill_under_load(place::mariadb().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_on_postgres_leaves_the_one_true_answer() {
    kill_under_load(place::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_on_redis_leaves_the_one_true_answer() {
    kill_under_load(place::redis().await).await;
}

async fn kill_under_load(place: Option<Place>) {
    let Some(place) = place else { return };
    let embedded = place.client().await;
    for (name, capacity) in SEMAPHORES {
        embedded.define(name, capacity).await.unwrap();
    }
    let mut server = Server::start(place.url(), "127.0.0.1:0");
    let answered: &'static AtomicUsize = Box::leak(Box::default());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let lockhouse = Lockhouse::connect(server.url()).await.unwrap();
        clients.spawn(async move { load(&lockhouse, client, answered).await });
    }
    for kill in 1..=KILLS {
        let enough = CLIENTS * ROUNDS * kill / (KILLS + 1);
        while answered.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        server = Server::start(place.url(), &server.address());
    }
    let granted: Vec<Request> = clients.join_all().await.into_iter().flatten().collect();

    assert_eq!(granted.len(), CLIENTS * ROUNDS);
    let rows = rows::read(place.url()).await;
    assert_eq!(audit::violations(&rows), [""; 0]);
    // The servers hold one of Lockhouse's own, for their upkeep.
    let ours = |name: &str| SEMAPHORES.iter().any(|(ours, _)| *ours == name);
    let mut semaphores = rows.semaphores.iter().filter(|row| ours(&row.name));
    assert!(
        semaphores.all(|row| row.in_use == 0),
        "{:?}",
        rows.semaphores
    );
    for request in &granted {
        let told: Vec<_> = request
            .permits
            .iter()
            .map(|p| (p.semaphore.as_str(), p.fence))
            .collect();
        let id = request.external_id.as_str();
        let mut kept: Vec<_> = rows
            .permits
            .iter()
            .filter(|row| row.external_id == id)
            .map(|row| (row.semaphore.as_str(), row.fence.unsigned_abs()))
            .collect();
        kept.sort_unstable();
        assert_eq!(told, kept, "{id}");
    }
    server.kill();
    place.clear().await;
}

/// Acquires and releases under ids that no other client uses, and repeats each call until it is answered.
async fn load(lockhouse: &Lockhouse, client: usize, answered: &AtomicUsize) -> Vec<Request> {
    let mut granted = Vec::new();
    for round in 0..ROUNDS {
        let id = format!("{client}-{round}");
        let names = SEMAPHORES
            .iter()
            .map(|(name, _)| SemaphoreName::parse(name).unwrap());
        let some = names.skip(round % 3).map(|name| (name, Count::ONE));
        let ask = Ask::new(ExternalId::parse(&id).unwrap(), some).unwrap();
        let wait = Duration::from_secs(5);
        let (request, _) = told(|| lockhouse.acquire(ask.clone(), wait)).await;
        // Once more: the same grant, not a second one.
        let (again, now) = told(|| lockhouse.acquire(ask.clone(), wait)).await;
        assert!(!now);
        assert_eq!(again, request);
        told(|| lockhouse.release(&id)).await;
        let ended = told(|| lockhouse.release(&id)).await;
        assert_eq!(ended.request.end_reason(), Some(EndReason::Released));
        granted.push(request);
        answered.fetch_add(1, Ordering::Relaxed);
    }
    granted
}

async fn told<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) if matches!(error.code(), Code::Exhausted | Code::StoreUnavailable) => {}
            Err(error) => panic!("{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(store: &str, listen: &str) -> Self {
        let mut process = Command::new(lockhouse())
            .args(["--url", store, "serve", "--listen", listen])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .unwrap();
        Self {
            process,
            url: url.to_owned(),
        }
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn address(&self) -> String {
        self.url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned()
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
