//! Lockhouse with a template's semaphores. Each client is a customer with two permits, and all customers share ten.
//!
//! Beside the clients there may be one more customer, which always has many waiters: in the engine of the clients, or in
//! another engine, as in another process.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lockhouse::{Ask as LockhouseAsk, Error, ExternalId, Lockhouse, SemaphoreName, Ttl};
use lockhouse_core::Count as Permits;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::lockhouse::{LockhouseContender, TTL, WAIT, external_id, failure};
use super::{Client, Contender, Failure};
use crate::Failed;
use crate::measured::{Server, Work};
use crate::shape::{Ask, Shape};

/// How many permits each customer has.
const OF_EACH: u32 = 2;

/// How many there are for all together.
const IN_ALL: u32 = 10;

/// How many waiters the noisy customer has for each customer that there is.
const NOISE: usize = 10;

/// How long it may take until all of those wait.
const UNTIL_THEY_WAIT: Duration = Duration::from_secs(30);

/// Customers, and what they ask of Lockhouse.
#[derive(Debug)]
pub(super) struct Customers {
    inner: LockhouseContender,
    is_noisy: bool,
    waiters: Mutex<JoinSet<()>>,
}

impl Customers {
    pub(super) fn of(inner: LockhouseContender, is_noisy: bool) -> Self {
        Self {
            inner,
            is_noisy,
            waiters: Mutex::default(),
        }
    }

    fn lockhouse(&self) -> &Lockhouse {
        &self.inner.engines[0]
    }

    /// The engine of the noisy customer: the second one, if there is one.
    fn noisy(&self) -> &Lockhouse {
        self.inner.engines.get(1).unwrap_or(self.lockhouse())
    }

    fn pattern(&self) -> String {
        format!("{}customer/*", self.inner.prefix)
    }

    fn customer(&self, who: &str) -> Result<Customer, Failed> {
        let prefix = &self.inner.prefix;
        Ok(Customer {
            own: SemaphoreName::parse(format!("{prefix}customer/{who}"))?,
            all: SemaphoreName::parse(format!("{prefix}all"))?,
        })
    }

    /// Has `waiters` of one customer acquire, hold as long as others do, and release, again and again.
    async fn make_noise(&self, waiters: usize, hold: Duration) -> Result<(), Failed> {
        let customer = self.customer("noisy")?;
        {
            let mut running = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..waiters {
                let lockhouse = self.noisy().clone();
                running.spawn(wait_again_and_again(lockhouse, customer.clone(), hold));
            }
        }
        let since = Instant::now();
        while (self.waiting(&customer.own).await? as usize) < waiters - IN_ALL as usize {
            if since.elapsed() > UNTIL_THEY_WAIT {
                return Err("the noisy customer's waiters do not wait".into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// How many wait; none before the first grant has created it.
    async fn waiting(&self, name: &SemaphoreName) -> Result<u64, Failed> {
        match self.noisy().status(name.as_str()).await {
            Ok(status) => Ok(status.waiting.into()),
            Err(Error::Refused(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// A customer's semaphore, and that of all.
#[derive(Clone, Debug)]
struct Customer {
    own: SemaphoreName,
    all: SemaphoreName,
}

impl Customer {
    fn ask(&self, id: ExternalId) -> Result<LockhouseAsk, Error> {
        let names = [self.own.clone(), self.all.clone()];
        let mut ask = LockhouseAsk::new(id, names.map(|name| (name, Permits::ONE)))?;
        ask.ttl = Some(Ttl::new(TTL)?);
        Ok(ask)
    }
}

async fn wait_again_and_again(lockhouse: Lockhouse, customer: Customer, hold: Duration) {
    while let Ok(id) = external_id() {
        let Ok(ask) = customer.ask(id.clone()) else {
            return;
        };
        // One who was not served in time asks again.
        if lockhouse.acquire(ask, WAIT).await.is_ok() {
            sleep(hold).await;
            // If it fails, it ends by its time.
            let _ = lockhouse.release(&id).await;
        }
    }
}

#[async_trait]
impl Contender for Customers {
    fn name(&self) -> String {
        let name = match (self.is_noisy, self.inner.engines.len()) {
            (false, _) => "customers",
            (true, 1) => "customers and a noisy one",
            (true, _) => "customers, and a noisy one in another engine",
        };
        name.to_owned()
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        let Customer { all, .. } = self.customer("any")?;
        self.lockhouse().define(all.as_str(), IN_ALL).await?;
        self.lockhouse().template(self.pattern(), OF_EACH).await?;
        match self.is_noisy {
            true => {
                let waiters = (shape.clients + 1) * NOISE;
                self.make_noise(waiters, shape.hold()).await
            }
            false => Ok(()),
        }
    }

    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed> {
        Ok(Box::new(CustomerClient {
            lockhouse: self.lockhouse().clone(),
            customer: self.customer(&number.to_string())?,
            held: None,
        }))
    }

    fn process_of(&self, number: usize) -> usize {
        self.inner.process_of(number)
    }

    fn work(&self) -> Option<Work> {
        self.inner.work()
    }

    async fn server(&self) -> Result<Server, Failed> {
        self.inner.server().await
    }

    async fn clear(&self) -> Result<(), Failed> {
        let mut waiters = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiters)
        };
        waiters.shutdown().await;
        self.inner.clear().await?;
        self.lockhouse().delete_template(self.pattern()).await?;
        Ok(())
    }
}

struct CustomerClient {
    lockhouse: Lockhouse,
    customer: Customer,
    held: Option<ExternalId>,
}

#[async_trait]
impl Client for CustomerClient {
    async fn acquire(&mut self, ask: &Ask<'_>) -> Result<(), Failure> {
        let id = ExternalId::parse(ask.external_id);
        let id = id.map_err(|error| Failure::new("id", error))?;
        let ask = self.customer.ask(id.clone()).map_err(failure)?;
        self.lockhouse.acquire(ask, WAIT).await.map_err(failure)?;
        self.held = Some(id);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let Some(id) = self.held.take() else {
            return Err(Failure::new("nothing held", "nothing is held"));
        };
        self.lockhouse.release(&id).await.map_err(failure)?;
        Ok(())
    }
}
