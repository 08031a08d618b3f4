//! The resources of one server process: memory with many permits held through it, and CPU time when
//! idle.

use std::time::{Duration, Instant};

use lockhouse::{Ask, Count, ExternalId, Lockhouse, SemaphoreName, Ttl};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use super::places::{Place, Places};
use super::scale::{HELD, Scale};
use super::server::Server;
use crate::Failed;
use crate::contender::Database;

/// The name by which to find it.
pub(super) const NAME: &str = "footprint";

const CLIENTS: u32 = 512;
const SEMAPHORE: &str = "bench";

/// Longer than the measurement.
const TTL: Duration = Duration::from_secs(3600);

/// The resources that one server took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Footprint {
    /// With much held through it.
    pub memory: Option<Memory>,
    /// While nobody asked.
    pub idle: Option<Idle>,
    /// Why something is missing.
    pub failed: Vec<String>,
}

/// Memory of a server, in MiB.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Requests held through it.
    pub held: u32,
    /// Clients that asked for them, each on a connection.
    pub clients: u32,
    /// When it had begun.
    pub at_first_mib: f64,
    /// The most that it had at once.
    pub most_mib: f64,
    /// When all were held.
    pub at_last_mib: f64,
}

/// Time of a server that nobody asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Idle {
    /// Semaphores that there were.
    pub semaphores: usize,
    /// For how long it was watched.
    pub seconds: f64,
    /// How much of one core it took, in percent.
    pub percent: f64,
}

pub(super) async fn measure(places: &Places, scale: &Scale) -> Footprint {
    let mut footprint = Footprint::default();
    match memory(places, scale).await {
        Ok(memory) => footprint.memory = Some(memory),
        Err(error) => footprint.failed.push(error.to_string()),
    }
    match idle(places, scale).await {
        Ok(idle) => footprint.idle = Some(idle),
        Err(error) => footprint.failed.push(error.to_string()),
    }
    footprint
}

async fn memory(places: &Places, scale: &Scale) -> Result<Memory, Failed> {
    let program = places.lockhouse()?;
    let database = Database::at(&places.url(Place::MySql)?).await?;
    let measured = async {
        let server = Server::start(program, database.url(), &[]).await?;
        let measured = hold(&server, scale.rows(HELD)).await;
        server.stop().await?;
        measured
    };
    let measured = measured.await;
    database.clear().await?;
    measured
}

async fn hold(server: &Server, held: u32) -> Result<Memory, Failed> {
    let (_, at_first_mib) = server.memory_mib()?;
    let clients = CLIENTS.min(held);
    let lockhouse = Lockhouse::connect(server.url()).await?;
    lockhouse.define(SEMAPHORE, held).await?;
    let mut holding = JoinSet::new();
    for client in 0..clients {
        let asks = (client..held).step_by(clients as usize).len();
        holding.spawn(acquire(lockhouse.clone(), asks));
    }
    while let Some(done) = holding.join_next().await {
        done??;
    }
    let (most_mib, at_last_mib) = server.memory_mib()?;
    Ok(Memory {
        held,
        clients,
        at_first_mib,
        most_mib,
        at_last_mib,
    })
}

async fn acquire(lockhouse: Lockhouse, asks: usize) -> Result<(), Failed> {
    let name = SemaphoreName::parse(SEMAPHORE)?;
    for _ in 0..asks {
        let id = ExternalId::parse(Uuid::now_v7().to_string())?;
        let mut ask = Ask::new(id, [(name.clone(), Count::ONE)])?;
        // So that the server has to think of when it expires.
        ask.ttl = Some(Ttl::new(TTL)?);
        lockhouse.acquire(ask, Duration::ZERO).await?;
    }
    Ok(())
}

async fn idle(places: &Places, scale: &Scale) -> Result<Idle, Failed> {
    let program = places.lockhouse()?;
    let database = Database::at(&places.url(Place::MySql)?).await?;
    let measured = async {
        let there = Lockhouse::connect(database.url()).await?;
        let semaphores = scale.semaphores();
        for i in 0..semaphores {
            there.define(format!("{SEMAPHORE}-{i}"), 10).await?;
        }
        drop(there);
        // Sweeps are far more frequent than they are by default, so that there are some.
        let server = Server::start(program, database.url(), &["--sweep-every", "10s"]).await?;
        let measured = watch(&server, scale).await;
        server.stop().await?;
        let (seconds, percent) = measured?;
        Ok(Idle {
            semaphores,
            seconds,
            percent,
        })
    };
    let measured = measured.await;
    database.clear().await?;
    measured
}

async fn watch(server: &Server, scale: &Scale) -> Result<(f64, f64), Failed> {
    let (settle, watch) = match scale.quick {
        true => (0, 1),
        false => (5, 30),
    };
    sleep(Duration::from_secs(settle)).await;
    let (begun, before) = (Instant::now(), server.cpu_seconds()?);
    sleep(Duration::from_secs(watch)).await;
    let seconds = begun.elapsed().as_secs_f64();
    let used = server.cpu_seconds()? - before;
    Ok((seconds, used / seconds * 100.0))
}
