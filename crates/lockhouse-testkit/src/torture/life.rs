//! The random actions of one task of a client.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lockhouse::SemaphoreName;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::plan::LONGEST_TTL_MS;
use super::probe::AGAIN;
use super::segment::{
    DELETED, FORGOTTEN, FOUGHT, KEYED, LINED_UP, PLAIN, RESIZED, SLOTTED, Segment, TEMPLATE, TIMED,
    capacity_for,
};
use crate::history::{Answer, Asked, Recorded, Refused, now_us};

/// A call that takes longer counts as endless.
const ENDLESS: Duration = Duration::from_secs(60);

/// After this time a task asks what became of a permit that it left to expire, so that the checker knows its end even if clocks
/// are set later.
const LEFT_FOR: Duration = Duration::from_secs(4);

/// How often a task repeats an ask whose answer was lost, until it is granted.
const UNTIL_GRANTED: u32 = 200;

/// The identity of a task.
#[derive(Clone, Copy)]
pub(super) struct Who {
    /// The task's client.
    pub(super) client: u32,
    /// The number of the task, and how many tasks the client has.
    pub(super) task: u32,
    pub(super) tasks: u32,
    /// How long the task rests at most after each action, unless it waits in line. It rests longer if calls take longer
    /// ([`Life::rest`]).
    pub(super) rest_ms: u64,
    pub(super) seed: u64,
}

/// A task of a client.
pub(super) struct Life {
    /// Clients of the server or engine of the task, and on a cluster of the other servers.
    clients: Vec<Recorded>,
    segment: Segment,
    who: Who,
    random: fastrand::Rng,
    over: watch::Receiver<bool>,
    asked: u64,
    /// Whether it asks only for semaphores without waiters. Few tasks do, so that there are moments at which no such call
    /// waits for an answer.
    is_plain: bool,
    /// Whether it asks for the semaphore without waiters whose holds have a TTL.
    is_timed: bool,
    /// Whether it waits in the line of all processes.
    is_in_line: bool,
    /// An ask that was granted.
    before: Option<Asked>,
    /// The requests that the task left to expire, and since when.
    left: VecDeque<(Instant, String)>,
    /// How long the last call took.
    took: Duration,
}

/// The longest rest that slow calls cause.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How long unused semaphores of the template are kept.
pub(super) const UNUSED: Duration = Duration::from_millis(1);

/// How long a permit for which callers wait in line is held on average.
const HELD_IN_LINE_MS: u64 = 250;

/// How often there is a new semaphore of the template, on a run whose clients have the time to wait for it.
const NEW_KEY_US: u64 = 400_000;

/// How long a long wait is.
const LONG_WAIT_MS: u64 = 4_000;

impl Life {
    pub(super) fn new(
        clients: Vec<Recorded>,
        segment: Segment,
        who: Who,
        over: watch::Receiver<bool>,
    ) -> Self {
        Self {
            clients,
            segment,
            who,
            random: fastrand::Rng::with_seed(who.seed),
            over,
            asked: 0,
            is_plain: who.task == 0,
            is_timed: who.task == 1,
            is_in_line: [2, 3].contains(&who.task),
            before: None,
            left: VecDeque::new(),
            took: Duration::ZERO,
        }
    }

    pub(super) async fn lead(mut self) {
        while !*self.over.borrow() {
            match self.random.u8(..100) {
                0..85 if self.is_plain => self.hold_plainly().await,
                0..85 if self.is_timed => self.hold_timed().await,
                0..85 if self.is_in_line => self.hold_in_line().await,
                0..54 => self.hold_by_time().await,
                54..72 => self.hold_by_key().await,
                72..82 => self.hold_by_owner().await,
                82..87 => self.ask_again().await,
                87..90 => self.ask_another_under_its_id().await,
                90..94 => self.meddle().await,
                94 | 95 => self.hold_and_forget().await,
                96 => self.resize().await,
                97 => self.set_template().await,
                _ => self.delete_and_define().await,
            }
            if !self.is_in_line && self.who.rest_ms > 0 {
                self.rest().await;
            }
        }
    }

    /// Rests for as long as a call takes, on average. So a slow machine gets fewer calls, instead of a queue of them, and
    /// works again as soon after a fault as a fast one.
    async fn rest(&mut self) {
        let slow_ms = self.took.min(LONGEST_REST / 2).as_millis() as u64 * 2;
        self.pause(self.who.rest_ms.max(slow_ms)).await;
    }

    /// Holds a request without a TTL. The task goes on only after the answer to its release. Otherwise it would be unknown for
    /// the rest of the segment which permits are held.
    async fn hold_plainly(&mut self) {
        let ask = self.ask(&PLAIN, None);
        let answer = self.until_known(&ask, Duration::ZERO).await;
        if !matches!(answer, Answer::Granted { .. }) {
            return self.pause(4).await;
        }
        self.pause(6).await;
        self.give_back(&ask.id).await;
        self.before = Some(ask);
    }

    /// Holds a request with a TTL on a semaphore without waiters. There, a refusal must be for lack of room, and the expiry of
    /// other requests makes room (P10). An ask whose answer was lost is repeated until it is granted. Otherwise it might be held
    /// for the rest of the segment, and no later refusal could be decided.
    async fn hold_timed(&mut self) {
        let is_old = |(since, _): &mut (Instant, String)| since.elapsed() > LEFT_FOR;
        if let Some((_, id)) = self.left.pop_front_if(is_old) {
            self.give_back(&id).await;
        }
        let ttl_ms = *self.choose(&[100, 300, 600]);
        let ask = self.ask(&[TIMED], Some(ttl_ms));
        let mut was_lost = false;
        for _ in 0..UNTIL_GRANTED {
            let wait = Duration::ZERO;
            let answer = self
                .call(async |client| client.acquire(ask.clone(), wait).await)
                .await;
            match answer {
                Answer::Unknown => was_lost = true,
                Answer::Refused(Refused::Exhausted(_)) if was_lost => self.pause(20).await,
                Answer::Granted { .. } => break,
                _ => return self.pause(10).await,
            }
        }
        self.pause(6).await;
        if self.random.u8(..10) > 0 {
            self.give_back(&ask.id).await;
        } else {
            self.left.push_back((Instant::now(), ask.id.clone()));
        }
        self.before = Some(ask);
    }

    /// Waits with about eight others, each of which holds for a while. So each waits for long enough to be overtaken, if a
    /// waiter can be.
    async fn hold_in_line(&mut self) {
        let mut ask = self.ask(&[LINED_UP], Some(LONGEST_TTL_MS));
        ask.permits[0].1 = 1;
        ask.waits = true;
        ask.priority = i32::from(self.random.u8(..6) == 0);
        let wait = Duration::from_millis(2 * LONG_WAIT_MS);
        let answer = self.until_known(&ask, wait).await;
        if !matches!(answer, Answer::Granted { .. }) {
            return self.pause(5).await;
        }
        self.pause(2 * HELD_IN_LINE_MS).await;
        self.give_back(&ask.id).await;
    }

    /// Renews a request, and releases it or lets it expire.
    async fn hold_by_time(&mut self) {
        let ttl_ms = *self.choose(&[1, 150, 600, 1_500, LONGEST_TTL_MS]);
        let names: Vec<_> = FOUGHT.into_iter().chain([RESIZED, DELETED]).collect();
        let mut ask = self.ask(&names, Some(ttl_ms));
        let wait = self.draw_wait(&mut ask);
        let answer = self.until_known(&ask, wait).await;
        if !matches!(answer, Answer::Granted { .. }) {
            return self.pause(5).await;
        }
        for _ in 0..self.random.u32(..3) {
            self.pause(12).await;
            let ttl = self.random.bool().then_some(ttl_ms * 1_000);
            self.call(async |client| client.renew(&ask.id, ttl).await)
                .await;
        }
        if self.random.u8(..10) > 0 {
            self.pause(10).await;
            self.call(async |client| client.release(&ask.id).await)
                .await;
        }
        self.before = Some(ask);
    }

    /// Whether the ask waits, and how long.
    fn draw_wait(&mut self, ask: &mut Asked) -> Duration {
        ask.waits = self.random.bool();
        let ms = match self.random.u32(0..8) {
            _ if !ask.waits => 0,
            // Long enough to be overtaken, if a waiter can be.
            0 => LONG_WAIT_MS,
            _ => self.random.u64(1..300),
        };
        Duration::from_millis(ms)
    }

    /// Holds one or two of the template's semaphores, and at most one other, which may be the slotted one.
    async fn hold_by_key(&mut self) {
        let ttl_ms = *self.choose(&[150, 600]);
        let mut ask = self.ask(&KEYED, Some(ttl_ms));
        ask.permits.truncate(2);
        if self.who.rest_ms > 0 && self.random.bool() {
            ask.permits[0].0 = self.new_key().await;
        }
        if self.random.bool() {
            ask.permits.truncate(1);
        }
        let (other, _) = *self.choose(&[SLOTTED, SLOTTED, FOUGHT[0], RESIZED]);
        if self.random.u8(..4) > 0 {
            ask.permits.push((self.segment.name(other), 1));
        }
        let wait = self.draw_wait(&mut ask);
        let answer = self.until_known(&ask, wait).await;
        if !matches!(answer, Answer::Granted { .. }) {
            return self.pause(5).await;
        }
        self.pause(20).await;
        if self.random.u8(..10) > 0 {
            self.call(async |client| client.release(&ask.id).await)
                .await;
        }
        self.before = Some(ask);
    }

    /// A semaphore of the template that does not exist yet. All tasks ask for it at the same moment, so that several processes
    /// create it at once.
    async fn new_key(&self) -> String {
        let now = now_us();
        let nth = now / NEW_KEY_US + 1;
        sleep(Duration::from_micros(nth * NEW_KEY_US - now)).await;
        let pattern = self.segment.name(TEMPLATE.0);
        pattern.replace('*', &nth.to_string())
    }

    /// Holds requests by heartbeats, and ends them by a goodbye or by silence.
    async fn hold_by_owner(&mut self) {
        let owner = format!("{}o", self.id());
        let ttl = Duration::from_millis(*self.choose(&[500, 1_500, LONGEST_TTL_MS]));
        let beats = async |client: &Recorded| client.heartbeat(&owner, ttl).await;
        self.call(beats).await;
        for _ in 0..self.random.u8(1..=2) {
            let mut ask = self.ask(&FOUGHT[1..], None);
            ask.owner = Some(owner.clone());
            let answer = self.until_known(&ask, Duration::ZERO).await;
            if !matches!(answer, Answer::Granted { .. }) {
                continue;
            }
            self.pause(20).await;
            self.call(beats).await;
            if self.random.u8(..3) == 0 {
                self.give_back(&ask.id).await;
            }
        }
        if self.random.u8(..4) > 0 {
            self.call(async |client| client.goodbye(&owner).await).await;
        }
    }

    /// Acquires a request that only its age ends.
    async fn hold_and_forget(&mut self) {
        let ask = self.ask(&[FORGOTTEN], None);
        self.until_known(&ask, Duration::ZERO).await;
        self.before = Some(ask);
    }

    /// P4 and P5: repeats an earlier ask, and renews it, whatever became of the first.
    async fn ask_again(&mut self) {
        let Some(mut ask) = self.before.clone() else {
            return;
        };
        ask.waits = false;
        let wait = Duration::ZERO;
        self.call(async |client| client.acquire(ask.clone(), wait).await)
            .await;
        if ask.ttl_us.is_some() {
            self.call(async |client| client.renew(&ask.id, None).await)
                .await;
        }
    }

    async fn ask_another_under_its_id(&mut self) {
        let Some(mut ask) = self.before.clone() else {
            return;
        };
        ask.permits[0].1 += 1;
        ask.waits = false;
        let wait = Duration::ZERO;
        self.call(async |client| client.acquire(ask.clone(), wait).await)
            .await;
    }

    /// Ends a listed request by force, or releases or ends a request that another task may have made.
    async fn meddle(&mut self) {
        if self.random.bool() {
            return self.end_what_is_listed().await;
        }
        let whose = Who {
            task: self.random.u32(..self.who.tasks),
            ..self.who
        };
        let back = self.random.u64(..4);
        let id = self.id_of(whose, self.asked.saturating_sub(back));
        let by_force = self.random.bool();
        self.call(async |client| {
            if by_force {
                client.force(&id).await
            } else {
                client.release(&id).await
            }
        })
        .await;
    }

    async fn end_what_is_listed(&mut self) {
        let (name, _) = *self.choose(&[FOUGHT[1], FOUGHT[2], RESIZED, FORGOTTEN]);
        let name = SemaphoreName::parse(self.segment.name(name)).unwrap();
        let client = self.anywhere();
        let listing = client.lockhouse().holders(Some(&name), None, 50);
        // During a fault there may be no answer.
        let Ok(Ok(held)) = timeout(ENDLESS, listing).await else {
            return;
        };
        if let Some(request) = self.random.choice(&held.requests) {
            let id = request.external_id.as_str();
            self.call(async |client| client.force(id).await).await;
        }
    }

    async fn resize(&mut self) {
        let (name, usual) = *self.choose(&[RESIZED, RESIZED, SLOTTED, KEYED[0]]);
        let most = 2 * capacity_for(self.who.tasks, usual);
        let capacity = self.random.u32(..=most);
        let name = self.segment.name(name);
        self.call(async |client| client.define(&name, capacity).await)
            .await;
    }

    /// Changes the template. Its semaphores follow it, and unused ones are deleted.
    async fn set_template(&mut self) {
        let (pattern, usual) = TEMPLATE;
        let capacity = self.random.u32(1..=2 * usual);
        let pattern = self.segment.name(pattern);
        self.call(async |client| client.template(&pattern, capacity, UNUSED).await)
            .await;
    }

    async fn delete_and_define(&mut self) {
        let (name, usual) = DELETED;
        let capacity = capacity_for(self.who.tasks, usual);
        let name = self.segment.name(name);
        self.call(async |client| client.delete(&name).await).await;
        self.call(async |client| client.define(&name, capacity).await)
            .await;
    }

    /// P9: asks until there is an answer. Now and then it asks once more if another server may answer (P5).
    async fn until_known(&mut self, ask: &Asked, wait: Duration) -> Answer {
        let mut answer = Answer::Unknown;
        for _ in 0..AGAIN {
            answer = self
                .call(async |client| client.acquire(ask.clone(), wait).await)
                .await;
            let asks_once_more = self.clients.len() > 1 && self.random.u8(..6) == 0;
            if answer == Answer::Unknown {
                self.pause(100).await;
            } else if !asks_once_more {
                break;
            }
        }
        answer
    }

    async fn give_back(&mut self, id: &str) {
        for _ in 0..AGAIN {
            let answer = self.call(async |client| client.release(id).await).await;
            if answer != Answer::Unknown {
                return;
            }
            self.pause(100).await;
        }
    }

    /// Any of the task's clients, mostly the first one.
    fn anywhere(&mut self) -> Recorded {
        let nth = match self.random.bool() {
            true => 0,
            false => self.random.usize(..self.clients.len()),
        };
        self.clients[nth].clone()
    }

    /// Makes a call. Pauses after an answer that is no refusal by a rule.
    async fn call(&mut self, call: impl AsyncFnOnce(&Recorded) -> Answer) -> Answer {
        let began = Instant::now();
        let answer = timeout(ENDLESS, call(&self.anywhere())).await;
        self.took = began.elapsed();
        let answer =
            answer.unwrap_or_else(|_| panic!("client {}: a call has no end", self.who.client));
        if matches!(answer, Answer::Unknown | Answer::Refused(Refused::Other(_))) {
            self.pause(50).await;
        }
        answer
    }

    /// A new ask for some of `names`, in any order.
    fn ask(&mut self, names: &[(&str, u32)], ttl_ms: Option<u64>) -> Asked {
        let mut names = names.to_vec();
        self.random.shuffle(&mut names);
        let some = self.random.usize(1..=names.len().min(3));
        let permits = names[..some].iter();
        let permits = permits.map(|(name, _)| {
            let count = self.random.i64(1..=2);
            (self.segment.name(name), count)
        });
        let permits = permits.collect();
        Asked {
            id: self.id(),
            permits,
            owner: None,
            ttl_us: ttl_ms.map(|ms| ms * 1_000),
            waits: false,
            priority: 0,
        }
    }

    fn id(&mut self) -> String {
        self.asked += 1;
        self.id_of(self.who, self.asked)
    }

    fn id_of(&self, who: Who, nth: u64) -> String {
        let Who { client, task, .. } = who;
        format!("{}c{client}t{task}-{nth}", self.segment.prefix())
    }

    fn choose<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.usize(..of.len())]
    }

    async fn pause(&mut self, up_to_ms: u64) {
        let us = self.random.u64(..=up_to_ms * 1_000);
        sleep(Duration::from_micros(us)).await;
    }
}
