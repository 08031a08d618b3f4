//! Plays the scenes with the locks on Redis, and with Lockhouse on Redis.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Lockhouse, Timestamp};
use tokio::time::{Instant, sleep};

use super::client::{Breakpoint, Client};
use super::lock::Lock;
use super::scene::Scene;
use super::servers::Servers;
use super::subject::Subject;
use super::turns::Turns;
use crate::Failed;
use crate::history::{
    self, Answer, Asked, Call, Circumstances, Held, Move, Moved, Operation, Promise, Recorder,
    Refused, Violation, check, check_under, now_us, rows,
};

const SHORT: Duration = Duration::from_millis(1_200);

/// A lock with the TTL [`SHORT`] has surely expired after this time.
const LATER: Duration = Duration::from_millis(1_500);

const LONG: Duration = Duration::from_secs(60);

/// How long after expiry a scene tries to acquire: longer than P10 allows.
const LOOKED_FOR: Duration = Duration::from_millis(1_400);

/// The TTL of clients that acquire again and again. It is longer than a busy machine pauses, so that the counter which they
/// extend does not expire in between.
const OFTEN: Duration = Duration::from_secs(5);

const HOUR: Duration = Duration::from_secs(3_600);

/// A scene as it was played.
pub(super) struct Played {
    pub(super) history: Vec<Operation>,
    pub(super) broken: Vec<Violation>,
}

/// The lock or client that goes through a scene.
enum Player {
    Hand(&'static dyn Lock),
    Lockhouse(Lockhouse),
}

/// Plays `scene` with `subject` on `servers`, on a semaphore of that name.
///
/// # Errors
/// When a server does not start, or a call of it fails.
pub(super) async fn play(
    scene: Scene,
    subject: Subject,
    servers: &mut Servers,
    semaphore: &str,
) -> Result<Played, Failed> {
    let urls = servers.urls();
    let player = match subject {
        Subject::Hand(lock) => Player::Hand(lock),
        Subject::Lockhouse => Player::Lockhouse(Lockhouse::connect(&urls[0]).await?),
    };
    let mut stage = Stage {
        player: &player,
        urls,
        recorder: Recorder::default(),
        semaphore: semaphore.to_owned(),
        capacity: scene.capacity(),
        clients: 0,
    };
    stage.define().await?;
    let (mut broken, mut moved) = (Vec::new(), Moved::default());
    match scene {
        Scene::DiesHalfway => stage.dies_halfway().await?,
        Scene::DeadHolder => stage.dead_holder().await?,
        Scene::LateRelease => stage.late_release().await?,
        Scene::SlowRelease => stage.slow_release().await?,
        Scene::FastClock => stage.fast_clock().await?,
        Scene::FoundExpiredByTwo => stage.found_expired_by_two().await?,
        Scene::PausedHolder => broken.extend(stage.paused_holder().await?),
        Scene::LostNode => {
            stage.two_majorities(servers.restart(2)).await?;
        }
        Scene::JumpedClock => {
            let violation;
            (moved, violation) = stage.jumped_clock(servers).await?;
            broken.extend(violation);
        }
        Scene::Reordered => stage.reordered().await?,
    }
    let history = stage.recorder.history();
    broken.extend(stage.broken(&history, &moved).await?);
    Ok(Played { history, broken })
}

struct Stage<'a> {
    player: &'a Player,
    urls: Vec<String>,
    recorder: Recorder,
    semaphore: String,
    capacity: u32,
    clients: u32,
}

impl Stage<'_> {
    async fn dies_halfway(&mut self) -> Result<(), Failed> {
        let mut victim = self.client().await?;
        let breakpoint = victim.stop_at_weak_point();
        let ask = self.ask("victim", SHORT);
        victim
            .acquire_and_die(&self.recorder, &ask, &breakpoint)
            .await;
        self.wait_for_room().await
    }

    async fn dead_holder(&mut self) -> Result<(), Failed> {
        // Both connect first, as the busy client has to come within the TTL.
        let (mut victim, mut busy) = (self.client().await?, self.client().await?);
        let ask = self.ask("victim", SHORT);
        victim.acquire(&self.recorder, &ask).await;
        self.recorder.dies(victim.number);
        let until = Instant::now() + SHORT + LOOKED_FOR;
        for i in 0.. {
            let ask = self.ask(&format!("busy-{i}"), OFTEN);
            busy.acquire(&self.recorder, &ask).await;
            busy.release(&self.recorder, &ask).await;
            if Instant::now() > until {
                break;
            }
            sleep(SHORT / 4).await;
        }
        for id in ["first", "second"] {
            let ask = self.ask(id, LONG);
            busy.acquire(&self.recorder, &ask).await;
        }
        Ok(())
    }

    async fn late_release(&mut self) -> Result<(), Failed> {
        let (mut late, mut next) = (self.client().await?, self.client().await?);
        let (of_late, of_next) = (self.ask("late", SHORT), self.ask("next", LONG));
        late.acquire(&self.recorder, &of_late).await;
        sleep(LATER).await;
        next.acquire(&self.recorder, &of_next).await;
        late.release(&self.recorder, &of_late).await;
        self.third().await
    }

    async fn slow_release(&mut self) -> Result<(), Failed> {
        let (mut slow, mut next) = (self.client().await?, self.client().await?);
        let (of_slow, of_next) = (self.ask("slow", SHORT), self.ask("next", LONG));
        slow.acquire(&self.recorder, &of_slow).await;
        let breakpoint = slow.stop_at_weak_point();
        let others = async {
            sleep(LATER).await;
            next.acquire(&self.recorder, &of_next).await;
            breakpoint.resume();
        };
        tokio::join!(slow.release(&self.recorder, &of_slow), others);
        self.third().await
    }

    async fn fast_clock(&mut self) -> Result<(), Failed> {
        let mut holder = self.client().await?;
        let ask = self.ask("holder", LONG);
        holder.acquire(&self.recorder, &ask).await;
        let urls = self.urls.clone();
        let mut fast = self.client_of(&urls, HOUR).await?;
        let ask = self.ask("fast", LONG);
        fast.acquire(&self.recorder, &ask).await;
        Ok(())
    }

    /// The first has the permit for a short time; the second asked for a long one.
    async fn found_expired_by_two(&mut self) -> Result<(), Failed> {
        let mut dead = self.client().await?;
        let ask = self.ask("dead", SHORT);
        dead.acquire(&self.recorder, &ask).await;
        self.recorder.dies(dead.number);
        sleep(LATER).await;
        let (mut first, mut second) = (self.client().await?, self.client().await?);
        let (of_first, of_second) = (self.ask("first", SHORT), self.ask("second", LONG));
        let breakpoints = [first.stop_at_weak_point(), second.stop_at_weak_point()];
        let is_hand = matches!(self.player, Player::Hand(_));
        let (recorder, stopped) = (&self.recorder, &breakpoints);
        let acquired = async {
            if is_hand {
                stopped[1].reached().await;
                stopped[0].reached().await;
            }
            stopped[0].resume();
        };
        let swaps_first = async {
            first.acquire(recorder, &of_first).await;
            stopped[1].resume();
        };
        let swaps_second = async {
            if !is_hand {
                // The second client is refused, so there is no call to stop it at.
                sleep(SHORT / 4).await;
            }
            second.acquire(recorder, &of_second).await;
        };
        tokio::join!(acquired, swaps_first, swaps_second);
        first.release(recorder, &of_first).await;
        self.wait_for_room().await
    }

    /// The resource refuses a write with a fence below one that it has seen.
    async fn paused_holder(&mut self) -> Result<Option<Violation>, Failed> {
        let (mut paused, mut next) = (self.client().await?, self.client().await?);
        let (of_paused, of_next) = (self.ask("paused", SHORT), self.ask("next", LONG));
        let of_first = paused.acquire(&self.recorder, &of_paused).await;
        sleep(LATER).await;
        let of_second = next.acquire(&self.recorder, &of_next).await;
        Ok(self.late_write(&of_first, &of_second))
    }

    /// The next holder has written to the resource, and then the first holder writes late. That breaks P7 unless its fence is lower.
    fn late_write(&self, of_first: &Answer, of_next: &Answer) -> Option<Violation> {
        let is_refused = fence(of_first) < fence(of_next);
        let what = "the resource cannot tell the late write of an earlier holder";
        let violation = Violation::new(Promise::P7, what).by(&self.recorder.history());
        (!is_refused).then_some(violation)
    }

    /// One client reaches servers 0 to 2, the other 2 to 4, and something happens to the one in the middle. Returns the answers to both.
    async fn two_majorities(
        &mut self,
        trouble: impl Future<Output = Result<(), Failed>>,
    ) -> Result<(Answer, Answer), Failed> {
        let (last, urls) = (self.urls.len().min(3), self.urls.clone());
        let mut one = self.client_of(&urls[..last], Duration::ZERO).await?;
        let ask = self.ask("one", LONG);
        let of_one = one.acquire(&self.recorder, &ask).await;
        trouble.await?;
        let mut other = self.client_of(&urls[last - 1..], Duration::ZERO).await?;
        let ask = self.ask("other", LONG);
        let of_other = other.acquire(&self.recorder, &ask).await;
        Ok((of_one, of_other))
    }

    /// Returns how the clock was moved. If a lock has no other clock, holds expire early: then only a fence protects the resource.
    async fn jumped_clock(
        &mut self,
        servers: &Servers,
    ) -> Result<(Moved, Option<Violation>), Failed> {
        let (since, mut jumped) = (now_us(), (0, 0));
        let jump = async {
            let from = now_us();
            servers.jump_an_hour(2).await?;
            jumped = (from, now_us());
            Ok::<_, Failed>(())
        };
        let (of_one, of_other) = self.two_majorities(jump).await?;
        let jumped = Move {
            from: jumped.0,
            to: jumped.1,
            off: HOUR.as_micros() as i64,
        };
        let moved = Moved {
            ahead: Timestamp::now().as_microsecond() - now_us().cast_signed(),
            since,
            until: now_us(),
            moves: vec![jumped],
        };
        Ok((moved, self.late_write(&of_one, &of_other)))
    }

    /// The promises that the history shows to be broken. Only Lockhouse has rows whose times are by the moved clock.
    async fn broken(&self, history: &[Operation], moved: &Moved) -> Result<Vec<Violation>, Failed> {
        match self.player {
            Player::Lockhouse(lockhouse) if !moved.moves.is_empty() => {
                let ids = history.iter().filter_map(Operation::id);
                let rows = rows::told(lockhouse, ids, [self.semaphore.as_str()]).await?;
                let circumstances = Circumstances {
                    moved: moved.clone(),
                    ..Circumstances::default()
                };
                Ok(check_under(&circumstances, history, &rows))
            }
            _ => Ok(check(history, None)),
        }
    }

    async fn reordered(&mut self) -> Result<(), Failed> {
        let turns = Turns::new([[0, 1, 2], [0, 1, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1]]);
        let mut clients = Vec::new();
        for i in 0..3 {
            let mut client = self.client().await?;
            if let How::Hand(_, hand) = &mut client.how {
                hand.turns = Some((Arc::clone(&turns), i));
            }
            clients.push((client, self.ask(&format!("client-{i}"), LONG)));
        }
        let recorder = &self.recorder;
        let all = clients
            .iter_mut()
            .map(|(client, ask)| client.acquire(recorder, ask));
        join_all(all).await;
        Ok(())
    }

    async fn third(&mut self) -> Result<(), Failed> {
        let mut third = self.client().await?;
        let ask = self.ask("third", LONG);
        third.acquire(&self.recorder, &ask).await;
        Ok(())
    }

    /// Asks until a permit is granted, or should have been.
    async fn wait_for_room(&mut self) -> Result<(), Failed> {
        let mut heir = self.client().await?;
        let until = Instant::now() + SHORT + LOOKED_FOR;
        for i in 0.. {
            let ask = self.ask(&format!("heir-{i}"), LONG);
            let answer = heir.acquire(&self.recorder, &ask).await;
            if matches!(answer, Answer::Granted { .. }) || Instant::now() > until {
                break;
            }
            sleep(SHORT / 4).await;
        }
        Ok(())
    }

    async fn define(&self) -> Result<(), Failed> {
        let call = Call::Define {
            semaphore: self.semaphore.clone(),
            capacity: self.capacity.into(),
        };
        if let Player::Lockhouse(lockhouse) = self.player {
            lockhouse.define(&self.semaphore, self.capacity).await?;
        }
        let done = async { Answer::Done };
        self.recorder.record(0, call, done).await;
        Ok(())
    }

    fn ask(&self, id: &str, ttl: Duration) -> Asked {
        Asked {
            id: format!("{}-{id}", self.semaphore),
            permits: vec![(self.semaphore.clone(), 1)],
            owner: None,
            ttl_us: u64::try_from(ttl.as_micros()).ok(),
            waits: false,
            priority: 0,
        }
    }

    async fn client(&mut self) -> Result<Actor, Failed> {
        let urls = self.urls.clone();
        self.client_of(&urls, Duration::ZERO).await
    }

    async fn client_of(&mut self, urls: &[String], clock_off: Duration) -> Result<Actor, Failed> {
        self.clients += 1;
        let how = match self.player {
            Player::Hand(lock) => {
                let client = Client::open(urls, self.capacity.into(), clock_off).await?;
                How::Hand(*lock, Box::new(client))
            }
            Player::Lockhouse(lockhouse) => How::Lockhouse(lockhouse.clone()),
        };
        Ok(Actor {
            number: self.clients,
            how,
        })
    }
}

/// A client in a scene.
struct Actor {
    number: u32,
    how: How,
}

enum How {
    Hand(&'static dyn Lock, Box<Client>),
    Lockhouse(Lockhouse),
}

impl Actor {
    /// Makes the client stop at the next weak point of its lock.
    fn stop_at_weak_point(&mut self) -> Arc<Breakpoint> {
        let breakpoint = Breakpoint::new();
        if let How::Hand(_, client) = &mut self.how {
            client.breakpoint = Some(Arc::clone(&breakpoint));
        }
        breakpoint
    }

    async fn acquire(&mut self, recorder: &Recorder, ask: &Asked) -> Answer {
        let call = Call::Acquire(ask.clone());
        recorder
            .record(self.number, call, self.how.acquire(ask))
            .await
    }

    /// The client dies at `breakpoint`, right after the command that takes the permit, or when it gets its answer.
    async fn acquire_and_die(&mut self, recorder: &Recorder, ask: &Asked, breakpoint: &Breakpoint) {
        let died = async {
            tokio::select! {
                answer = self.how.acquire(ask) => answer,
                () = breakpoint.reached() => granted(ask),
            }
        };
        let call = Call::Acquire(ask.clone());
        recorder.record(self.number, call, died).await;
        recorder.dies(self.number);
    }

    async fn release(&mut self, recorder: &Recorder, ask: &Asked) {
        let call = Call::Release { id: ask.id.clone() };
        let answer = async {
            match &mut self.how {
                How::Hand(lock, client) => match lock.release(client, ask).await {
                    Ok(true) => Answer::Ended {
                        now: true,
                        reason: "released".into(),
                    },
                    Ok(false) => Answer::Refused(Refused::Other("it holds nothing".into())),
                    Err(_) => Answer::Unknown,
                },
                How::Lockhouse(lockhouse) => history::ended(lockhouse.release(&ask.id).await),
            }
        };
        recorder.record(self.number, call, answer).await;
    }
}

impl How {
    async fn acquire(&mut self, ask: &Asked) -> Answer {
        match self {
            How::Hand(lock, client) => match lock.acquire(client, ask).await {
                Ok(true) => granted(ask),
                Ok(false) => Answer::Refused(Refused::Exhausted(vec![ask.permits[0].0.clone()])),
                Err(_) => Answer::Unknown,
            },
            How::Lockhouse(lockhouse) => history::acquire(lockhouse, ask, Duration::ZERO).await,
        }
    }
}

fn granted(ask: &Asked) -> Answer {
    Answer::Granted {
        permits: vec![Held {
            semaphore: ask.permits[0].0.clone(),
            count: 1,
            fence: None,
            slots: None,
        }],
        now: true,
    }
}

fn fence(answer: &Answer) -> Option<i64> {
    match answer {
        Answer::Granted { permits, .. } => permits.first().and_then(|permit| permit.fence),
        _ => None,
    }
}
