//! A short run on a few semaphores. It contains every event that a promise is about.
//!
//! Wherever it can, the drill waits for an event instead of a timer. So it does the same on a store that keeps its promises
//! and on a broken one, and one run shows the break.

mod line;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use lockhouse::{Lockhouse, Upkeep};
use tokio::time::sleep;

use crate::history::{Asked, Operation, Recorded, Recorder};

/// Ids of clients whose clock is an hour fast begin with this.
pub const FAST: &str = "fast-";

const SHORT: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_millis(120);
const LONG: Duration = Duration::from_secs(60);

/// The semaphores of a drill.
pub const SEMAPHORES: [&str; 24] = [
    "crowd",
    "north",
    "south",
    "again",
    "lost",
    "late",
    "renewed",
    "killed",
    "clock",
    "resized",
    "recreated",
    "waited",
    "owned",
    "silent",
    "slotted",
    "key/held",
    "key/used",
    "key/refused",
    "key/idle",
    "queue",
    "urgent",
    "customer/a",
    "customer/b",
    "all",
];

/// Clients of one store, each with its own engine, and their history.
pub struct Drill {
    clients: Vec<Recorded>,
    recorder: Arc<Recorder>,
    /// Makes reads without locks stale, or correct again.
    look_stale: Box<dyn Fn(bool) + Send + Sync>,
}

impl Drill {
    /// A drill with `clients`, of which there are at least four.
    pub fn new(clients: Vec<Lockhouse>, look_stale: impl Fn(bool) + Send + Sync + 'static) -> Self {
        let recorder = Arc::new(Recorder::default());
        let clients = (1..).zip(clients);
        Self {
            clients: clients
                .map(|(number, client)| Recorded::new(client, &recorder, number))
                .collect(),
            recorder,
            look_stale: Box::new(look_stale),
        }
    }

    /// Runs the drill, in some seconds. Returns the history.
    pub async fn run(self) -> Vec<Operation> {
        let killed = join(join(self.killed(), self.silent()), self.of_a_template());
        let killed = join(killed, self.in_line());
        let others = async {
            self.crowd().await;
            self.several().await;
            self.asked_again().await;
            self.lost_answers().await;
            self.late().await;
            self.renewed().await;
            self.clocks().await;
            self.resized().await;
            self.recreated().await;
            self.said_goodbye().await;
            self.slotted().await;
        };
        join(killed, others).await;
        // Stale reads would affect all clients, so these two run alone.
        self.woken().await;
        self.swept().await;
        self.recorder.history()
    }

    async fn crowd(&self) {
        self.clients[0].define("crowd", 2).await;
        for round in 0..3 {
            let crowd = (0..).zip(&self.clients[..4]);
            let crowd = crowd.map(async |(i, client)| {
                let ask = asked(&format!("crowd-{round}-{i}"), &[("crowd", 1)], None);
                client.acquire(ask.clone(), Duration::ZERO).await;
                sleep(Duration::from_millis(20)).await;
                client.release(&ask.id).await;
            });
            join_all(crowd).await;
        }
    }

    async fn several(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.define("north", 4).await;
        one.define("south", 4).await;
        for round in 0..3 {
            let down = asked(
                &format!("down-{round}"),
                &[("north", 2), ("south", 1)],
                None,
            );
            let up = asked(&format!("up-{round}"), &[("south", 2), ("north", 1)], None);
            let now = Duration::ZERO;
            join(one.acquire(down.clone(), now), two.acquire(up.clone(), now)).await;
            let high = asked(
                &format!("high-{round}"),
                &[("north", 1), ("south", 3)],
                None,
            );
            one.acquire(high, now).await;
            join(one.release(&down.id), two.release(&up.id)).await;
        }
    }

    async fn asked_again(&self) {
        let [one, two, three, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.define("again", 3).await;
        let ask = asked("again", &[("again", 1)], None);
        let now = Duration::ZERO;
        one.acquire(ask.clone(), now).await;
        two.acquire(ask.clone(), now).await;
        join(
            one.acquire(ask.clone(), now),
            three.acquire(ask.clone(), now),
        )
        .await;
        two.acquire(asked("again", &[("again", 2)], None), now)
            .await;
        two.acquire(asked("much", &[("again", 3)], None), now).await;
        one.release("again").await;
        two.release("again").await;
        join(one.release("again"), two.release("again")).await;
        one.renew("again", Some(1_000_000)).await;
        one.acquire(ask, now).await;
        one.release("nobody").await;
        two.acquire(asked("forced", &[("again", 1)], None), now)
            .await;
        three.force("forced").await;
        two.release("forced").await;
    }

    async fn lost_answers(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.define("lost", 1).await;
        let ask = asked("lost", &[("lost", 1)], Some(LONG));
        one.acquire_and_lose_the_answer(ask.clone()).await;
        two.acquire(ask, Duration::ZERO).await;
        two.release_and_lose_the_answer("lost").await;
        one.release("lost").await;
        one.acquire(asked("next", &[("lost", 1)], None), Duration::ZERO)
            .await;
    }

    async fn late(&self) {
        let client = &self.clients[0];
        client.define("late", 2).await;
        let now = Duration::ZERO;
        client
            .acquire(asked("late-1", &[("late", 1)], Some(SHORT)), now)
            .await;
        client
            .acquire(asked("late-2", &[("late", 1)], Some(SHORT)), now)
            .await;
        sleep(LATER).await;
        client.renew("late-1", Some(60_000_000)).await;
        client.release("late-2").await;
    }

    async fn renewed(&self) {
        let client = &self.clients[0];
        client.define("renewed", 1).await;
        let ask = asked("renewed", &[("renewed", 1)], Some(LONG));
        client.acquire(ask, Duration::ZERO).await;
        sleep(LATER).await;
        client.renew("renewed", None).await;
    }

    /// A caller asks for the permit a second after it expired.
    async fn killed(&self) {
        let client = &self.clients[2];
        client.define("killed", 1).await;
        let ask = asked("killed", &[("killed", 1)], Some(SHORT));
        client.acquire(ask, Duration::ZERO).await;
        client.clone().die();
        sleep(SHORT + Duration::from_millis(1_200)).await;
        let heir = asked("heir", &[("killed", 1)], None);
        self.clients[3].acquire(heir, Duration::ZERO).await;
    }

    /// The same for a permit that only its owner's session keeps. The owner falls silent.
    async fn silent(&self) {
        let client = &self.clients[2];
        client.define("silent", 1).await;
        client.heartbeat("eve", SHORT).await;
        let ask = Asked {
            owner: Some("eve".into()),
            ..asked("silent", &[("silent", 1)], None)
        };
        client.acquire(ask, Duration::ZERO).await;
        sleep(SHORT + Duration::from_millis(1_200)).await;
        let heir = asked("eves-heir", &[("silent", 1)], None);
        self.clients[3].acquire(heir, Duration::ZERO).await;
    }

    async fn clocks(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.define("clock", 1).await;
        let now = Duration::ZERO;
        one.acquire(asked("slow", &[("clock", 1)], Some(LONG)), now)
            .await;
        two.acquire(asked(&format!("{FAST}1"), &[("clock", 1)], Some(LONG)), now)
            .await;
        one.release("slow").await;
        two.acquire(asked(&format!("{FAST}2"), &[("clock", 1)], Some(LONG)), now)
            .await;
    }

    async fn resized(&self) {
        let client = &self.clients[1];
        client.define("resized", 3).await;
        let ask = |i: u32| asked(&format!("resized-{i}"), &[("resized", 1)], None);
        client.acquire(ask(1), Duration::ZERO).await;
        client.acquire(ask(2), Duration::ZERO).await;
        client.define("resized", 1).await;
        // A change and a grant of one microsecond could have come in either order.
        sleep(Duration::from_millis(2)).await;
        client.acquire(ask(3), Duration::ZERO).await;
        client.release("resized-1").await;
        client.acquire(ask(4), Duration::ZERO).await;
        client.release("resized-2").await;
        client.acquire(ask(5), Duration::ZERO).await;
        client.release("resized-5").await;
        client.define("resized", 0).await;
        sleep(Duration::from_millis(2)).await;
        client.acquire(ask(6), Duration::ZERO).await;
    }

    /// Slots that are released and granted again, before and after a shrink.
    async fn slotted(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.define_with_slots("slotted", 3).await;
        let ask = |i: u32, count| asked(&format!("slotted-{i}"), &[("slotted", count)], None);
        let now = Duration::ZERO;
        one.acquire(ask(1, 1), now).await;
        two.acquire(ask(2, 2), now).await;
        one.acquire(ask(2, 2), now).await;
        one.release("slotted-1").await;
        two.acquire(ask(3, 1), now).await;
        one.define_with_slots("slotted", 2).await;
        two.release("slotted-2").await;
        one.acquire(ask(4, 1), now).await;
        two.acquire(ask(5, 1), now).await;
    }

    /// Semaphores that a template creates, resizes and deletes, of which one was resized by hand.
    async fn of_a_template(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        let now = Duration::ZERO;
        let unused = Duration::from_millis(1);
        one.template("key/*", 1, unused).await;
        let ask = |id: &str, names: &[&str]| {
            let permits: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
            asked(id, &permits, None)
        };
        one.acquire(ask("key-1", &["key/held"]), now).await;
        one.define("key/held", 5).await;
        one.acquire(ask("key-2", &["key/used"]), now).await;
        for id in ["key-3", "key-4"] {
            one.acquire(ask(id, &["key/idle"]), now).await;
            one.release(id).await;
            // The last use is kept to the second.
            sleep(Duration::from_millis(1_100)).await;
            // Held and unused semaphores of a template. A broken store may fail here.
            two.template("key/*", 2, unused).await;
            let _ = two.lockhouse().sweep(&Upkeep::default()).await;
        }
        // The checker reads the rows at the end of the drill.
        two.template("key/*", 2, LONG).await;
        one.acquire(ask("key-5", &["key/idle"]), now).await;
        two.acquire(ask("key-6", &["key/held"]), now).await;
        one.acquire(ask("key-7", &["key/idle"]), now).await;
        two.acquire(ask("key-8", &["key/idle", "key/refused"]), now)
            .await;
    }

    async fn recreated(&self) {
        let client = &self.clients[1];
        for round in 0..2 {
            client.define("recreated", 1).await;
            let id = format!("recreated-{round}");
            let ask = asked(&id, &[("recreated", 1)], None);
            client.acquire(ask, Duration::ZERO).await;
            client.delete("recreated").await;
            client.release(&id).await;
            client.delete("recreated").await;
        }
    }

    /// An owner whose session keeps a request, and whose goodbye ends it.
    async fn said_goodbye(&self) {
        let client = &self.clients[0];
        client.define("owned", 2).await;
        client.heartbeat("bob", LONG).await;
        let ask = owned("bob-1", "bob");
        client.acquire(ask, Duration::ZERO).await;
        // An end and a beginning in the same microsecond may have come in either order.
        sleep(Duration::from_millis(2)).await;
        client.goodbye("bob").await;
    }

    /// A caller waits while stale reads show room.
    async fn woken(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.define("waited", 1).await;
        one.acquire(asked("holder", &[("waited", 1)], None), Duration::ZERO)
            .await;
        let ask = Asked {
            waits: true,
            ..asked("waiter", &[("waited", 1)], None)
        };
        let holding = async {
            sleep(Duration::from_millis(30)).await;
            (self.look_stale)(true);
            sleep(Duration::from_millis(200)).await;
            (self.look_stale)(false);
            one.release("holder").await;
        };
        join(two.acquire(ask, Duration::from_secs(5)), holding).await;
        two.release("waiter").await;
    }

    /// A sweep with stale reads, of requests that must stay: one with TTL left, young ones without a TTL, and one whose
    /// owner was heard.
    async fn swept(&self) {
        let [one, two, ..] = &self.clients[..] else {
            unreachable!()
        };
        one.heartbeat("ann", LONG).await;
        one.acquire(owned("ann-1", "ann"), Duration::ZERO).await;
        let ask = asked("swept", &[("waited", 1)], Some(LONG));
        one.acquire(ask, Duration::ZERO).await;
        // The heartbeat is then surely before the sweep, by any clock.
        sleep(SHORT).await;
        (self.look_stale)(true);
        // A broken store may fail the sweep.
        let _ = two.lockhouse().sweep(&Upkeep::default()).await;
        (self.look_stale)(false);
        one.renew("swept", None).await;
    }
}

fn owned(id: &str, owner: &str) -> Asked {
    Asked {
        owner: Some(owner.to_owned()),
        ..asked(id, &[("owned", 1)], None)
    }
}

fn asked(id: &str, permits: &[(&str, i64)], ttl: Option<Duration>) -> Asked {
    let permits = permits.iter();
    Asked {
        id: id.to_owned(),
        permits: permits
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
        owner: None,
        ttl_us: ttl.map(|ttl| ttl.as_micros() as u64),
        waits: false,
        priority: 0,
    }
}
