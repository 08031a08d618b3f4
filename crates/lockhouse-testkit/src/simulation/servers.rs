//! The servers of a run: one engine each, on one store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse::Lockhouse;
use tokio::task::JoinHandle;

use super::plan::Plan;
use super::store::Faulty;
use super::world::World;

pub(super) struct Servers {
    pub(super) world: Arc<World>,
    slow_ms: u64,
    notifies: bool,
    running: Mutex<Vec<Running>>,
}

/// A server's process, with the callers that live in it.
struct Running {
    /// How many processes this server had before.
    nth: usize,
    lockhouse: Lockhouse,
    store: Arc<Faulty>,
    callers: Vec<JoinHandle<()>>,
}

impl Servers {
    pub(super) fn of(plan: &Plan, world: &Arc<World>) -> Arc<Self> {
        let servers = Self {
            world: Arc::clone(world),
            slow_ms: plan.slow_ms,
            notifies: plan.notifies,
            running: Mutex::default(),
        };
        for server in 0..plan.servers {
            let running = servers.begin(server, 0);
            servers.running().push(running);
        }
        Arc::new(servers)
    }

    fn begin(&self, server: usize, nth: usize) -> Running {
        let name = format!("server {server}.{nth}");
        let store = Faulty::new(name, &self.world, self.slow_ms, self.notifies);
        self.world.add_listener(store.clone());
        Running {
            nth,
            lockhouse: Lockhouse::with_store(store.clone()),
            store,
            callers: Vec::new(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.running().len()
    }

    /// The server's name, and a client of it.
    pub(super) fn at(&self, server: usize) -> (String, Lockhouse) {
        let running = self.running();
        let its = &running[server % running.len()];
        (its.store.name.clone(), its.lockhouse.clone())
    }

    pub(super) fn store(&self, server: usize) -> Arc<Faulty> {
        Arc::clone(&self.running()[server].store)
    }

    /// A caller that lives in the server's process.
    pub(super) fn call(&self, server: usize, caller: impl Future<Output = ()> + Send + 'static) {
        let caller = tokio::spawn(caller);
        self.running()[server].callers.push(caller);
    }

    /// Takes all callers.
    pub(super) fn take_callers(&self) -> Vec<JoinHandle<()>> {
        let mut running = self.running();
        let callers = running.iter_mut().flat_map(|its| its.callers.drain(..));
        callers.collect()
    }

    /// The server's process dies, and another takes its place.
    pub(super) fn kill(&self, server: usize) {
        let nth = self.running()[server].nth + 1;
        let restarted = self.begin(server, nth);
        let dead = std::mem::replace(&mut self.running()[server], restarted);
        dead.store.die();
        dead.callers.iter().for_each(JoinHandle::abort);
    }

    pub(super) fn have_been_killed(&self) -> bool {
        self.running().iter().any(|its| its.nth > 0)
    }

    /// Ends all faults.
    pub(super) fn calm(&self) {
        for its in self.running().iter() {
            its.store.calm();
        }
    }
}
