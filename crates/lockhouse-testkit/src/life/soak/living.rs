//! One process of a soak: tasks that do at random all that a client may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse::{Ask, Count, EndReason, Error, ExternalId, Lockhouse, Owner, SemaphoreName, Ttl};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::scene::{DELETED, FORGOTTEN, RESIZED, STEADY, is_fair, upkeep};
use crate::life::processes::until_stdin_ends;

const TASKS: u32 = 12;

/// Lives until stdin ends.
pub(in crate::life) async fn live(url: &str, prefix: &str, seed: u64) {
    let lockhouse = Lockhouse::connect(url).await.unwrap();
    let maintaining = lockhouse.maintain(upkeep()).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let life = Life {
            lockhouse: lockhouse.clone(),
            random: fastrand::Rng::with_seed(seed ^ u64::from(task)),
            prefix: format!("{prefix}-{task}"),
            asked: 0,
        };
        tasks.spawn(life.lead(Arc::clone(&over)));
    }
    until_stdin_ends().await;
    over.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    drop(maintaining);
    println!("over");
}

struct Life {
    lockhouse: Lockhouse,
    random: fastrand::Rng,
    prefix: String,
    asked: u64,
}

impl Life {
    async fn lead(mut self, over: Arc<AtomicBool>) {
        while !over.load(Ordering::Relaxed) {
            let done = match self.random.u8(..100) {
                0..70 => self.hold_by_time().await,
                70..85 => self.hold_by_owner().await,
                85..88 => self.hold_and_forget().await,
                88..92 => self.resize().await,
                92..95 => self.delete_and_define().await,
                95..98 => self.force().await,
                _ => self.ask_after_what_ended().await,
            };
            match done {
                Ok(()) => {}
                Err(error) if error.is_transient() || is_fair(error.code()) => {}
                Err(error) => panic!("{}: {error:?}", self.prefix),
            }
        }
    }

    /// Acquires with a time to live; renews, releases, or lets it pass.
    async fn hold_by_time(&mut self) -> Result<(), Error> {
        let mut ask = self.ask();
        let ttl = *self.choose(&[1, 50, 300, 1_000]);
        ask.ttl = Some(Ttl::from_ms(ttl).unwrap());
        self.acquire(&ask).await?;
        let renewals = self.random.u32(..3);
        for _ in 0..renewals {
            self.pause(ttl / 2).await;
            self.lockhouse.renew(&ask.external_id, None).await?;
        }
        match self.random.u8(..10) {
            0 => Ok(()),
            1 => self.release(&ask.external_id, 2).await,
            _ => self.release(&ask.external_id, 1).await,
        }
    }

    /// Holds by heartbeats; says goodbye, or falls silent.
    async fn hold_by_owner(&mut self) -> Result<(), Error> {
        let owner = self.id();
        let ttl = Duration::from_millis(*self.choose(&[200, 500, 1_000]));
        self.lockhouse.heartbeat(&owner, ttl).await?;
        let mut held = Vec::new();
        for _ in 0..self.random.u8(1..=3) {
            let mut ask = self.ask();
            ask.owner = Some(Owner::parse(&owner).unwrap());
            self.acquire(&ask).await?;
            held.push(ask.external_id);
        }
        for _ in 0..self.random.u8(..3) {
            self.pause(100).await;
            self.lockhouse.heartbeat(&owner, ttl).await?;
        }
        if self.random.bool() {
            self.release(&held[0], 1).await?;
        }
        if self.random.bool() {
            self.lockhouse.goodbye(&owner).await?;
            for id in &held {
                let ended = self.lockhouse.release(id).await?;
                assert!(!ended.now, "{owner} said goodbye, and {id} was still held");
            }
        }
        Ok(())
    }

    /// Nothing but its age will end it.
    async fn hold_and_forget(&mut self) -> Result<(), Error> {
        let ask = self.ask();
        self.acquire(&ask).await
    }

    async fn resize(&mut self) -> Result<(), Error> {
        let (name, usual) = *self.choose(&RESIZED);
        let capacity = match self.random.u8(..8) {
            0 => 0,
            _ => self.random.u32(1..=2 * usual),
        };
        self.lockhouse.define(name, capacity).await.map(|_| ())
    }

    async fn delete_and_define(&mut self) -> Result<(), Error> {
        let (name, capacity) = DELETED;
        let deleted = self.lockhouse.delete(name).await;
        self.lockhouse.define(name, capacity).await?;
        deleted
    }

    async fn force(&mut self) -> Result<(), Error> {
        let mut holders = self.lockhouse.holders(None, None, 50).await?.requests;
        holders.retain(|request| request.external_id.as_str() != FORGOTTEN.1);
        if holders.is_empty() {
            return Ok(());
        }
        let id = &self.choose(&holders).external_id;
        let by = Some(&*self.prefix);
        self.lockhouse.force_release(id, by).await.map(|_| ())
    }

    /// P4 and P5: what has ended has ended.
    async fn ask_after_what_ended(&mut self) -> Result<(), Error> {
        let ask = self.ask();
        self.acquire(&ask).await?;
        self.release(&ask.external_id, 1).await?;
        let again = self.lockhouse.acquire(ask.clone(), Duration::ZERO).await;
        let renewed = self
            .lockhouse
            .renew(&ask.external_id, Some(upkeep().sweep_every));
        for ended in [again.map(|_| ()), renewed.await.map(|_| ())] {
            match ended {
                Ok(()) => panic!("{} goes on after its end", ask.external_id),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => assert_eq!(error.code(), lockhouse::Code::RequestEnded),
            }
        }
        Ok(())
    }

    /// Acquires, and does so again where the answer may have been lost: nothing stays held that
    /// is not told of.
    async fn acquire(&mut self, ask: &Ask) -> Result<(), Error> {
        let wait = Duration::from_millis(self.random.u64(..60));
        loop {
            match self.lockhouse.acquire(ask.clone(), wait).await {
                Ok((request, _)) => {
                    let permits = request.permits.iter();
                    let told: Vec<_> = permits.map(|p| (&p.semaphore, p.count)).collect();
                    let asked: Vec<_> = ask.permits().collect();
                    assert_eq!(told, asked);
                    return Ok(());
                }
                Err(error) if error.maybe_applied() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn release(&mut self, id: &ExternalId, times: u32) -> Result<(), Error> {
        self.pause(6).await;
        let mut now = 0;
        for _ in 0..times {
            let released = self.lockhouse.release(id).await?;
            now += u32::from(released.now);
            let reason = released.request.end_reason();
            assert!(reason.is_some(), "{id} was released, and lives");
            if released.now {
                assert_eq!(reason, Some(EndReason::Released));
            }
        }
        assert!(now <= 1, "{id} was released twice");
        Ok(())
    }

    /// An ask that nobody made before, for some of the semaphores.
    fn ask(&mut self) -> Ask {
        let mut names: Vec<_> = STEADY.into_iter().chain(RESIZED).chain([DELETED]).collect();
        self.random.shuffle(&mut names);
        let some = self.random.usize(1..=3);
        let permits = names[..some].iter().map(|(name, _)| {
            let count = self.random.u32(1..=2);
            (
                SemaphoreName::parse(name).unwrap(),
                Count::new(count).unwrap(),
            )
        });
        let permits: Vec<_> = permits.collect();
        Ask::new(ExternalId::parse(self.id()).unwrap(), permits).unwrap()
    }

    fn id(&mut self) -> String {
        self.asked += 1;
        format!("{}-{}", self.prefix, self.asked)
    }

    fn choose<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.usize(..of.len())]
    }

    async fn pause(&mut self, up_to_ms: u64) {
        sleep(Duration::from_micros(self.random.u64(..=up_to_ms * 1_000))).await;
    }
}
