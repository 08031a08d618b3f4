//! Lockhouse itself: engines in this process on a database, or its clients of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse::{Ask as LockhouseAsk, Error, ExternalId, Lockhouse, SemaphoreName, Ttl};
use lockhouse_core::store::{Batch, FullStore};
use lockhouse_core::{Capacity, Cause, Command, Count as Permits, Definition};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::counted::{Count, Counted};
use super::{Client, Contender, Failure, settings};
use crate::Failed;
use crate::measured::{Server, Work};
use crate::shape::{Ask, Shape};

/// As in the library, for a hold that says nothing else.
pub(super) const TTL: Duration = Duration::from_secs(30);

/// How long a client waits for room, where the capacity is short.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// Commands in one transaction while what was before is made.
const BEFORE: usize = 2_000;

/// How many calls of a server at once while what was before is made.
const CALLS: usize = 64;

/// Lockhouse, at one URL or several of the same database.
#[derive(Debug)]
pub struct LockhouseContender {
    name: String,
    pub(super) engines: Vec<Lockhouse>,
    /// The store of an engine here, for what is faster without it.
    store: Option<Arc<dyn FullStore>>,
    count: Option<Arc<Count>>,
    /// The prefix of the semaphores' names, which makes them unique.
    pub(super) prefix: String,
    server: Server,
    /// Whether no more is to be prepared.
    interrupted: AtomicBool,
}

impl LockhouseContender {
    /// `engines` of them on the database of each URL, or clients of servers.
    ///
    /// # Errors
    /// When a URL makes no sense, or a database does not answer.
    pub async fn connect(urls: &[String], engines: usize) -> Result<Self, Failed> {
        let mut contender = Self {
            name: "lockhouse".into(),
            engines: Vec::new(),
            store: None,
            count: None,
            prefix: format!("bench-{:08x}-", fastrand::u32(..)),
            server: Server::default(),
            interrupted: AtomicBool::new(false),
        };
        let count = Arc::new(Count::default());
        for url in urls {
            for _ in 0..engines {
                if is_server(url) {
                    contender.engines.push(Lockhouse::connect(url).await?);
                    contender.name = "lockhouse over HTTP".into();
                    continue;
                }
                let store = match &contender.store {
                    // Opened again, `memory:` would be another, empty store.
                    Some(store) if url == "memory:" => Arc::clone(store),
                    _ => lockhouse_stores::open(url).map_err(Error::from)?,
                };
                let counted = Counted::new(Arc::clone(&store), Arc::clone(&count));
                let lockhouse = Lockhouse::with_store(Arc::new(counted));
                lockhouse.migrate().await?;
                contender.engines.push(lockhouse);
                contender.store = Some(store);
                contender.count = Some(Arc::clone(&count));
            }
        }
        if let Some(url) = urls.first() {
            contender.server = settings::of(url).await?;
        }
        match contender.engines.len() {
            0 => Err("lockhouse needs a URL".into()),
            1 => Ok(contender),
            many => {
                contender.name = format!("{}, {many} of them", contender.name);
                Ok(contender)
            }
        }
    }

    /// The same, where more is `known` of the database than its clients can find out.
    #[must_use]
    pub fn on(self, known: Server) -> Self {
        Self {
            server: known,
            ..self
        }
    }

    fn semaphore(&self, number: usize) -> Result<SemaphoreName, Failed> {
        Ok(SemaphoreName::parse(format!("{}{number}", self.prefix))?)
    }

    fn semaphores(&self, shape: &Shape) -> Result<Vec<SemaphoreName>, Failed> {
        (0..shape.semaphores).map(|i| self.semaphore(i)).collect()
    }

    fn goes_on(&self) -> bool {
        !self.interrupted.load(Ordering::Relaxed)
    }

    /// The quick way: large batches, past the engine.
    async fn prepare_in_store(&self, store: &dyn FullStore, shape: &Shape) -> Result<(), Failed> {
        let names = self.semaphores(shape)?;
        let capacity = Capacity::new(shape.capacity())?;
        let defined = names.iter().map(|name| {
            let mut definition = Definition::new(name.clone(), capacity);
            definition.slots = Some(shape.slots);
            Ok(vec![Command::Define(definition)])
        });
        transact(store, defined.take_while(|_| self.goes_on())).await?;
        let before = (0..shape.held + shape.ended).map(|i| {
            let id = external_id()?;
            let name = names[i as usize % names.len()].clone();
            let ask = LockhouseAsk::new(id.clone(), [(name, Permits::ONE)])?;
            let mut commands = vec![Command::acquire(ask)];
            if i >= shape.held {
                commands.push(Command::End {
                    external_id: id,
                    cause: Cause::Released { by: None },
                });
            }
            Ok(commands)
        });
        transact(store, before.take_while(|_| self.goes_on())).await
    }

    async fn prepare_by_calls(&self, shape: &Shape) -> Result<(), Failed> {
        let lockhouse = &self.engines[0];
        let names = self.semaphores(shape)?;
        let capacity = shape.capacity();
        let defined = names
            .iter()
            .map(|name| define(lockhouse.clone(), name.clone(), capacity, shape.slots));
        all(defined.take_while(|_| self.goes_on())).await?;
        let before = (0..shape.held + shape.ended).map(|i| {
            let name = names[i as usize % names.len()].clone();
            once(lockhouse.clone(), name, i >= shape.held)
        });
        all(before.take_while(|_| self.goes_on())).await
    }
}

#[async_trait]
impl Contender for LockhouseContender {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        match &self.store {
            Some(store) => self.prepare_in_store(&**store, shape).await,
            None => self.prepare_by_calls(shape).await,
        }
    }

    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed> {
        Ok(Box::new(LockhouseClient {
            lockhouse: self.engines[self.process_of(number)].clone(),
            prefix: self.prefix.clone(),
            held: None,
        }))
    }

    fn process_of(&self, number: usize) -> usize {
        number % self.engines.len()
    }

    fn work(&self) -> Option<Work> {
        self.count.as_ref().map(|count| count.work())
    }

    async fn server(&self) -> Result<Server, Failed> {
        Ok(self.server.clone())
    }

    /// Requests stay, as ended ones do, until they are purged.
    async fn clear(&self) -> Result<(), Failed> {
        let lockhouse = &self.engines[0];
        let mut after = Some(SemaphoreName::parse(&self.prefix)?);
        loop {
            let found = lockhouse.semaphores(after.as_ref(), 1000).await?;
            let mine = found.iter().map(|status| &status.semaphore.name);
            let mine: Vec<_> = mine
                .take_while(|name| name.as_str().starts_with(&self.prefix))
                .collect();
            let Some(last) = mine.last() else {
                return Ok(());
            };
            after = Some((*last).clone());
            for name in mine {
                release_all(lockhouse, name).await?;
                lockhouse.delete(name.as_str()).await?;
            }
        }
    }
}

async fn release_all(lockhouse: &Lockhouse, name: &SemaphoreName) -> Result<(), Failed> {
    loop {
        let holders = lockhouse.holders(Some(name), None, 1000).await?.requests;
        if holders.is_empty() {
            return Ok(());
        }
        let released = holders
            .into_iter()
            .map(|request| release(lockhouse.clone(), request.external_id));
        all(released).await?;
    }
}

struct LockhouseClient {
    lockhouse: Lockhouse,
    prefix: String,
    held: Option<ExternalId>,
}

#[async_trait]
impl Client for LockhouseClient {
    async fn acquire(&mut self, ask: &Ask<'_>) -> Result<(), Failure> {
        let ask = self.ask(ask).map_err(failure)?;
        let id = ask.external_id.clone();
        self.lockhouse.acquire(ask, WAIT).await.map_err(failure)?;
        self.held = Some(id);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let Some(id) = self.held.take() else {
            return Err(Failure::new("nothing held", "nothing is held"));
        };
        let released = self.lockhouse.release(&id).await.map_err(failure)?;
        match released.now {
            true => Ok(()),
            false => Err(Failure::new(
                "lost",
                format!("{id} had ended before it was released"),
            )),
        }
    }
}

impl LockhouseClient {
    fn ask(&self, ask: &Ask<'_>) -> Result<LockhouseAsk, Error> {
        let count = Permits::new(ask.count)?;
        let permits = ask.semaphores.iter().map(|number| {
            let name = SemaphoreName::parse(format!("{}{number}", self.prefix))?;
            Ok((name, count))
        });
        let permits = permits.collect::<Result<Vec<_>, Error>>()?;
        let mut asked = LockhouseAsk::new(ExternalId::parse(ask.external_id)?, permits)?;
        asked.ttl = Some(Ttl::new(TTL)?);
        Ok(asked)
    }
}

pub(super) fn failure(error: Error) -> Failure {
    let kind = match &error {
        Error::Store(store) => format!("{} ({:?})", error.code().as_str(), store.kind()),
        other => other.code().as_str().to_owned(),
    };
    Failure::new(kind, error)
}

pub(super) fn external_id() -> Result<ExternalId, Failed> {
    Ok(ExternalId::parse(Uuid::now_v7().to_string())?)
}

fn is_server(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Has `groups` of commands, each of which stays together, decided in large batches.
async fn transact(
    store: &dyn FullStore,
    groups: impl Iterator<Item = Result<Vec<Command>, Failed>>,
) -> Result<(), Failed> {
    let mut commands = Vec::new();
    for group in groups {
        commands.extend(group?);
        if commands.len() >= BEFORE {
            decided(store, std::mem::take(&mut commands)).await?;
        }
    }
    decided(store, commands).await
}

async fn decided(store: &dyn FullStore, commands: Vec<Command>) -> Result<(), Failed> {
    if commands.is_empty() {
        return Ok(());
    }
    for outcome in store.transact(&Batch::new(commands)).await? {
        outcome?;
    }
    Ok(())
}

async fn define(
    lockhouse: Lockhouse,
    name: SemaphoreName,
    capacity: u32,
    slots: bool,
) -> Result<(), Failed> {
    let define = lockhouse.define(&name, capacity);
    match slots {
        true => define.slots().await?,
        false => define.await?,
    };
    Ok(())
}

async fn once(lockhouse: Lockhouse, name: SemaphoreName, ended: bool) -> Result<(), Failed> {
    let ask = LockhouseAsk::new(external_id()?, [(name, Permits::ONE)])?;
    let (granted, _) = lockhouse.acquire(ask, Duration::ZERO).await?;
    match ended {
        true => release(lockhouse, granted.external_id).await,
        false => Ok(()),
    }
}

async fn release(lockhouse: Lockhouse, external_id: ExternalId) -> Result<(), Failed> {
    lockhouse.release(&external_id).await?;
    Ok(())
}

/// Makes all `calls`, not too many at once.
async fn all(
    calls: impl Iterator<Item = impl Future<Output = Result<(), Failed>> + Send + 'static>,
) -> Result<(), Failed> {
    let mut under_way = JoinSet::new();
    for call in calls {
        under_way.spawn(call);
        if under_way.len() == CALLS
            && let Some(done) = under_way.join_next().await
        {
            done??;
        }
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(())
}
