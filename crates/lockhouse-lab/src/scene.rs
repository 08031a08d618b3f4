//! The scenes that run with every strategy and with Lockhouse.
//!
//! Each scene is an event that every lock meets sooner or later: a crowd, a holder that dies, a late holder, a lost answer, a
//! fast clock. Wherever it can, a scene waits for an event instead of a timer. The checker decides which promises the strategy
//! broke.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::Lockhouse;
use tokio::time::{Instant, sleep};

use crate::Failed;
use crate::history::{self, Answer, Asked, Call, Operation, Recorder, Rows, rows};
use crate::strategy::{self, At, Meet, Strategy};

const SHORT: Duration = Duration::from_millis(200);

/// Longer than the time that the checker counts as short.
const LATER: Duration = Duration::from_millis(300);

const LONG: Duration = Duration::from_secs(60);

/// How long after a permit's TTL a client looks for it: longer than the promise allows.
const LOOKED_FOR: Duration = Duration::from_millis(1_400);

const HOUR_US: i64 = 3_600_000_000;

/// The number of grants, spread over the nodes.
const ROUNDS: u32 = 60;

/// A scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// More clients than there are permits come at once.
    Crowd,
    /// A holder dies.
    Killed,
    /// A holder releases after its TTL, when another client has the permit.
    LateRelease,
    /// A holder renews after its TTL.
    LateRenewal,
    /// Two clients ask for two semaphores in opposite orders.
    Crossed,
    /// Two calls ask under one id at once.
    Twice,
    /// An answer is lost, and the client asks again.
    LostAnswer,
    /// A client's clock is an hour fast.
    FastClock,
    /// One grant after the other, through different nodes.
    Rounds,
}

impl Scene {
    pub(crate) const ALL: [Scene; 9] = [
        Scene::Crowd,
        Scene::Killed,
        Scene::LateRelease,
        Scene::LateRenewal,
        Scene::Crossed,
        Scene::Twice,
        Scene::LostAnswer,
        Scene::FastClock,
        Scene::Rounds,
    ];

    /// Plays the scene on semaphores whose names begin with `tag`. Returns its history, and the rows that are left if they
    /// are known.
    pub(crate) async fn play(
        self,
        subject: &Subject,
        tag: &str,
    ) -> Result<(Vec<Operation>, Option<Rows>), Failed> {
        let mut stage = Stage {
            subject,
            recorder: Arc::default(),
            tag: tag.to_owned(),
            players: 0,
            semaphores: Vec::new(),
        };
        let played = match self {
            Scene::Crowd => stage.crowd().await,
            Scene::Killed => stage.killed().await,
            Scene::Twice => stage.twice().await,
            Scene::LostAnswer => stage.lost_answer().await,
            Scene::Crossed if subject.takes_several() => stage.crossed().await,
            Scene::LateRelease if subject.expires() => stage.late_release().await,
            Scene::LateRenewal if subject.expires() => stage.late_renewal().await,
            Scene::FastClock if subject.expires() => stage.fast_clock().await,
            Scene::Rounds if subject.has_nodes() => stage.rounds().await,
            // A strategy cannot break a call that it does not have.
            _ => Ok(()),
        };
        let rows = stage.rows().await;
        stage.clear().await;
        played?;
        Ok((stage.recorder.history(), rows?))
    }
}

/// The strategy or client that goes through the scenes.
pub(crate) enum Subject {
    /// A strategy, with the URLs of its nodes.
    Hand(&'static dyn Strategy, Vec<String>),
    /// A client of Lockhouse on each node.
    Lockhouse(Vec<Lockhouse>),
}

struct Stage<'a> {
    subject: &'a Subject,
    recorder: Arc<Recorder>,
    tag: String,
    players: u32,
    semaphores: Vec<String>,
}

impl Stage<'_> {
    async fn crowd(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("crowd", 2).await?;
        let mut players = self.racers(3).await?;
        let asks = (0..).map(|i| self.ask(&format!("crowd-{i}"), &[&semaphore], LONG));
        let crowd = players.iter_mut().zip(asks).map(async |(player, ask)| {
            player.acquire(&ask).await;
            // All clients that got in are in at the same time.
            sleep(LATER).await;
            player.release(&ask.id).await;
        });
        join_all(crowd).await;
        Ok(())
    }

    async fn killed(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("killed", 1).await?;
        let mut holder = self.player(0).await?;
        holder
            .acquire(&self.ask("killed", &[&semaphore], SHORT))
            .await;
        holder.die();
        let mut other = self.player(0).await?;
        let until = Instant::now() + SHORT + LOOKED_FOR;
        for i in 0.. {
            other.sweep().await?;
            let ask = self.ask(&format!("heir-{i}"), &[&semaphore], LONG);
            if other.acquire(&ask).await || Instant::now() > until {
                break;
            }
            sleep(SHORT / 2).await;
        }
        Ok(())
    }

    async fn late_release(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("late", 1).await?;
        let mut late = self.player(0).await?;
        let ask = self.ask("late", &[&semaphore], SHORT);
        late.acquire(&ask).await;
        sleep(LATER).await;
        let mut next = self.player(0).await?;
        next.sweep().await?;
        next.acquire(&self.ask("next", &[&semaphore], LONG)).await;
        late.release(&ask.id).await;
        let mut third = self.player(0).await?;
        third.acquire(&self.ask("third", &[&semaphore], LONG)).await;
        Ok(())
    }

    async fn late_renewal(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("renewed", 1).await?;
        let mut late = self.player(0).await?;
        let ask = self.ask("renewed", &[&semaphore], SHORT);
        late.acquire(&ask).await;
        sleep(LATER).await;
        late.renew(&ask.id, LONG).await;
        Ok(())
    }

    async fn crossed(&mut self) -> Result<(), Failed> {
        let one = self.define("north", 2).await?;
        let other = self.define("south", 2).await?;
        let mut players = self.racers(2).await?;
        let asks = [
            self.ask("down", &[&one, &other], LONG),
            self.ask("up", &[&other, &one], LONG),
        ];
        let both = players.iter_mut().zip(&asks);
        join_all(both.map(async |(player, ask)| player.acquire(ask).await)).await;
        Ok(())
    }

    async fn twice(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("twice", 2).await?;
        let mut players = self.racers(2).await?;
        let ask = self.ask("twice", &[&semaphore], LONG);
        join_all(players.iter_mut().map(|player| player.acquire(&ask))).await;
        Ok(())
    }

    async fn lost_answer(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("lost", 1).await?;
        let ask = self.ask("lost", &[&semaphore], LONG);
        self.player(0)
            .await?
            .acquire_and_lose_the_answer(&ask)
            .await;
        let mut again = self.player(0).await?;
        again.acquire(&ask).await;
        again.release(&ask.id).await;
        Ok(())
    }

    async fn fast_clock(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("clock", 1).await?;
        let mut holder = self.player(0).await?;
        let ask = self.ask("holder", &[&semaphore], LONG);
        holder.acquire(&ask).await;
        let mut fast = self.player(HOUR_US).await?;
        fast.acquire(&self.ask("fast", &[&semaphore], LONG)).await;
        holder.renew(&ask.id, LONG).await;
        Ok(())
    }

    async fn rounds(&mut self) -> Result<(), Failed> {
        let semaphore = self.define("rounds", ROUNDS).await?;
        let mut players = Vec::new();
        for _ in 0..self.subject.nodes() {
            players.push(self.player(0).await?);
        }
        for i in 0..ROUNDS as usize {
            let ask = self.ask(&format!("round-{i}"), &[&semaphore], LONG);
            // Most grants go through the first node, so that its counter is ahead of the other nodes' counters.
            let others = players.len() - 1;
            let node = if i % 4 < 3 { 0 } else { 1 + i / 4 % others };
            players[node].acquire(&ask).await;
        }
        Ok(())
    }

    fn ask(&self, id: &str, semaphores: &[&str], ttl: Duration) -> Asked {
        let semaphores = semaphores.iter();
        Asked {
            id: format!("{}-{id}", self.tag),
            permits: semaphores.map(|name| ((*name).to_owned(), 1)).collect(),
            owner: None,
            ttl_us: u64::try_from(ttl.as_micros()).ok(),
            waits: false,
            priority: 0,
        }
    }

    /// A semaphore. It has one permit if the strategy cannot count.
    async fn define(&mut self, name: &str, capacity: u32) -> Result<String, Failed> {
        let semaphore = format!("{}-{name}", self.tag);
        let call = |capacity: u32| Call::Define {
            semaphore: semaphore.clone(),
            capacity: capacity.into(),
        };
        match self.subject {
            Subject::Hand(strategy, urls) => {
                let capacity = if strategy.counts() { capacity } else { 1 };
                let mut at = At::open(&urls[0], 0, &Arc::new(Meet::of(0))).await?;
                strategy
                    .define(&mut at, &semaphore, capacity.into())
                    .await?;
                for other in &urls[1..] {
                    strategy::arrives(other, &semaphore).await?;
                }
                let done = async { Answer::Done };
                self.recorder.record(0, call(capacity), done).await;
            }
            Subject::Lockhouse(nodes) => {
                self.semaphores.push(semaphore.clone());
                nodes[0].define(&semaphore, capacity).await?;
                let done = async { Answer::Done };
                self.recorder.record(0, call(capacity), done).await;
            }
        }
        Ok(semaphore)
    }

    /// A player that does not race.
    async fn player(&mut self, clock_off_us: i64) -> Result<Player, Failed> {
        self.one_of(clock_off_us, &Arc::new(Meet::of(0))).await
    }

    /// `number` players that wait for each other where the strategy has its race.
    async fn racers(&mut self, number: u32) -> Result<Vec<Player>, Failed> {
        let meet = Arc::new(Meet::of(number));
        let mut players = Vec::new();
        for _ in 0..number {
            players.push(self.one_of(0, &meet).await?);
        }
        Ok(players)
    }

    async fn one_of(&mut self, clock_off_us: i64, meet: &Arc<Meet>) -> Result<Player, Failed> {
        let node = self.players as usize % self.subject.nodes();
        self.players += 1;
        let how = match self.subject {
            Subject::Hand(strategy, urls) => How::Hand(
                *strategy,
                Box::new(At::open(&urls[node], clock_off_us, meet).await?),
            ),
            // Lockhouse does not use the client's clock.
            Subject::Lockhouse(nodes) => How::Lockhouse(nodes[node].clone()),
        };
        Ok(Player {
            number: self.players,
            recorder: Arc::clone(&self.recorder),
            how,
        })
    }

    async fn rows(&self) -> Result<Option<Rows>, Failed> {
        let Some(lockhouse) = self.subject.lockhouse() else {
            return Ok(None);
        };
        let history = self.recorder.history();
        let mut ids: Vec<_> = history.iter().filter_map(Operation::id).collect();
        ids.sort_unstable();
        ids.dedup();
        let semaphores = self.semaphores.iter().map(String::as_str);
        Ok(Some(rows::told(lockhouse, ids, semaphores).await?))
    }

    /// Deletes the semaphores.
    async fn clear(&self) {
        let Some(lockhouse) = self.subject.lockhouse() else {
            return;
        };
        let history = self.recorder.history();
        for id in history.iter().filter_map(Operation::id) {
            // A refused request does not exist, and a request that cannot be released expires.
            let _ = lockhouse.release(id).await;
        }
        for semaphore in &self.semaphores {
            let _ = lockhouse.delete(semaphore).await;
        }
    }
}

impl Subject {
    fn nodes(&self) -> usize {
        match self {
            Subject::Hand(_, urls) => urls.len(),
            Subject::Lockhouse(nodes) => nodes.len(),
        }
    }

    fn has_nodes(&self) -> bool {
        self.nodes() > 1
    }

    fn lockhouse(&self) -> Option<&Lockhouse> {
        match self {
            Subject::Hand(..) => None,
            Subject::Lockhouse(nodes) => nodes.first(),
        }
    }

    fn expires(&self) -> bool {
        match self {
            Subject::Hand(strategy, _) => strategy.expires(),
            Subject::Lockhouse(_) => true,
        }
    }

    fn takes_several(&self) -> bool {
        match self {
            Subject::Hand(strategy, _) => strategy.takes_several(),
            Subject::Lockhouse(_) => true,
        }
    }
}

/// A client whose calls are noted.
struct Player {
    number: u32,
    recorder: Arc<Recorder>,
    how: How,
}

enum How {
    Hand(&'static dyn Strategy, Box<At>),
    Lockhouse(Lockhouse),
}

impl Player {
    /// Asks for permits. Returns whether they were granted.
    async fn acquire(&mut self, ask: &Asked) -> bool {
        let call = Call::Acquire(ask.clone());
        let answer = self.how.acquire(ask);
        let answer = self.recorder.record(self.number, call, answer).await;
        matches!(answer, Answer::Granted { .. })
    }

    async fn acquire_and_lose_the_answer(&mut self, ask: &Asked) {
        let call = Call::Acquire(ask.clone());
        let lost = async {
            self.how.acquire(ask).await;
            Answer::Unknown
        };
        self.recorder.record(self.number, call, lost).await;
    }

    async fn renew(&mut self, id: &str, ttl: Duration) {
        let call = Call::Renew {
            id: id.to_owned(),
            ttl_us: u64::try_from(ttl.as_micros()).ok(),
        };
        let answer = async {
            match &mut self.how {
                How::Hand(strategy, at) => {
                    let ttl_us = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
                    strategy::renewed(strategy.renew(at, id, ttl_us).await)
                }
                How::Lockhouse(lockhouse) => {
                    let renewed = lockhouse.renew(id, Some(ttl)).await;
                    renewed.map_or_else(|error| history::refused(&error), |_| Answer::Renewed)
                }
            }
        };
        self.recorder.record(self.number, call, answer).await;
    }

    async fn release(&mut self, id: &str) {
        let call = Call::Release { id: id.to_owned() };
        let answer = async {
            match &mut self.how {
                How::Hand(strategy, at) => strategy::released(strategy.release(at, id).await),
                How::Lockhouse(lockhouse) => history::ended(lockhouse.release(id).await),
            }
        };
        self.recorder.record(self.number, call, answer).await;
    }

    /// Runs the strategy's periodic job. Lockhouse needs none: it looks for expired requests when a caller finds no room.
    async fn sweep(&mut self) -> Result<(), Failed> {
        if let How::Hand(strategy, at) = &mut self.how {
            strategy.sweep(at).await?;
        }
        Ok(())
    }

    fn die(self) {
        self.recorder.dies(self.number);
    }
}

impl How {
    async fn acquire(&mut self, ask: &Asked) -> Answer {
        match self {
            How::Hand(strategy, at) => {
                let done = strategy.acquire(at, ask).await;
                strategy::granted(at, ask, done)
            }
            How::Lockhouse(lockhouse) => history::acquire(lockhouse, ask, Duration::ZERO).await,
        }
    }
}
