//! Clients of all the servers, on the same few semaphores.
//!
//! Each client repeats a call to one server at another. Both must give the same answer (P5, P9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse::Lockhouse;
use tokio::time::sleep;

use super::nodes::NODES;
use crate::history::{Answer, Asked, Recorded, Recorder, Refused, now_us};

/// The semaphores that all clients want, with their capacities.
pub(super) const SEMAPHORES: [(&str, u32); 4] = [("north", 2), ("middle", 3), SOUTH, WEST];

/// Asks with a TTL or a wait use one of these two, and of the others at most one of a template, so that short windows can be
/// judged on the others.
pub(super) const SOUTH: (&str, u32) = ("south", 5);

/// Somebody always waits for this one, and for so long that the order can be judged (P11).
pub(super) const WEST: (&str, u32) = ("west", 1);

/// The pattern and the capacity of a template. All clients move on to the next of its names at once, so that several nodes
/// create one.
pub(super) const TEMPLATE: (&str, u32) = ("fresh/*", 2);

/// Longer than any run: nobody deletes what the template has made.
pub(super) const UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a name of the template is asked for.
const FRESH_US: u64 = 400_000;

/// Whether short windows of what is asked of a semaphore can be judged.
pub(super) fn has_windows(name: &str) -> bool {
    name != SOUTH.0 && name != WEST.0
}

/// How often what was not answered is asked again, and the pause before.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(50);

/// The node behind the server that client `number` spoke to.
pub(super) fn node_of(number: u32) -> usize {
    number as usize % NODES
}

/// One after the other, until it is told to stop.
pub(super) struct Worker {
    /// By the servers.
    clients: Vec<Recorded>,
    random: fastrand::Rng,
    name: String,
    home: usize,
}

impl Worker {
    /// The nth of its server. `servers` are the URLs of all of them.
    pub(super) async fn of(
        servers: &[String],
        recorder: &Arc<Recorder>,
        home: usize,
        nth: usize,
        seed: u64,
    ) -> Self {
        let worker = (home * 100 + nth) as u32 + 1;
        let mut clients = Vec::new();
        for (node, url) in (0..).zip(servers) {
            let lockhouse = Lockhouse::connect(url).await.unwrap();
            let number = worker * NODES as u32 + node;
            clients.push(Recorded::new(lockhouse, recorder, number));
        }
        Self {
            clients,
            random: fastrand::Rng::with_seed(seed ^ u64::from(worker)),
            name: format!("w{worker}"),
            home,
        }
    }

    pub(super) async fn run(mut self, stop: Arc<AtomicBool>) {
        for i in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let ask = self.draw(format!("{}-{i}", self.name));
            self.hold(ask).await;
        }
    }

    fn draw(&mut self, id: String) -> Asked {
        let mut others = [SEMAPHORES[0].0, SEMAPHORES[1].0];
        self.random.shuffle(&mut others);
        let fresh = format!(
            "{}{}",
            TEMPLATE.0.trim_end_matches('*'),
            now_us() / FRESH_US
        );
        let (names, most, waits) = match self.random.u8(..) {
            0..70 => (&[WEST.0][..], 1, true),
            70..110 => (&[SOUTH.0, &fresh][..], 1, self.random.bool()),
            110..160 => (&[SOUTH.0][..], 2, self.random.bool()),
            _ => (&others[..self.random.usize(1..=2)], 2, false),
        };
        let permits = names.iter();
        Asked {
            id,
            permits: permits
                .map(|name| ((*name).to_owned(), self.random.i64(1..=most)))
                .collect(),
            owner: None,
            ttl_us: (!has_windows(names[0])).then(|| self.random.u64(2..=6) * 1_000_000),
            waits,
            priority: 0,
        }
    }

    /// Acquires, holds and releases, each through its own server or another.
    async fn hold(&mut self, ask: Asked) {
        let is_west = ask.permits[0].0 == WEST.0;
        let wait = match ask.waits {
            true if is_west => Duration::from_secs(20),
            true => Duration::from_millis(self.random.u64(10..500)),
            false => Duration::ZERO,
        };
        let mut answer = self.at_home().acquire(ask.clone(), wait).await;
        // A lost answer is asked for elsewhere; and now and then one that was not lost.
        for _ in 0..TRIES {
            let is_lost = answer == Answer::Unknown;
            if !is_lost && self.random.u8(..) > 40 {
                break;
            }
            if is_lost {
                sleep(PAUSE).await;
            }
            answer = self.anywhere().acquire(ask.clone(), wait).await;
        }
        match answer {
            Answer::Granted { .. } => {}
            Answer::Unknown => return,
            _ => {
                sleep(Duration::from_millis(self.random.u64(1..20))).await;
                return;
            }
        }
        let longest = if is_west { 300 } else { 15 };
        sleep(Duration::from_millis(self.random.u64(0..longest))).await;
        if ask.ttl_us.is_some() && self.random.u8(..) < 60 {
            self.anywhere().renew(&ask.id, ask.ttl_us).await;
        }
        // One in fifty is left to its time.
        if ask.ttl_us.is_none() || self.random.u8(..) > 5 {
            self.release(&ask.id).await;
        }
    }

    async fn release(&mut self, id: &str) {
        for _ in 0..TRIES {
            let lost = self.anywhere().release(id).await == Answer::Unknown;
            if !lost {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    fn at_home(&self) -> &Recorded {
        &self.clients[self.home]
    }

    /// Mostly its own.
    fn anywhere(&mut self) -> &Recorded {
        if self.random.bool() {
            return self.at_home();
        }
        let other = self.random.usize(..self.clients.len());
        &self.clients[other]
    }
}

/// Whether it says that something was done, or that there is no room: the server is at work.
pub(super) fn is_at_work(answer: &Answer) -> bool {
    let full = matches!(answer, Answer::Refused(Refused::Exhausted(_)));
    full || matches!(answer, Answer::Granted { .. } | Answer::Ended { .. })
}
