//! P11 at random, against a simple model of the line.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse::{Ask, Code, Lockhouse};

use crate::house::{Caller, LONG, ask, grant, house, idle, preferred};

type Permits = Vec<(String, u32)>;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A model of the line, which every event walks from its beginning.
#[derive(Default)]
struct ByHand {
    capacity: BTreeMap<String, u32>,
    in_use: BTreeMap<String, u32>,
    held: BTreeMap<String, Permits>,
    /// The waiters in their order: by priority, as all come within ten seconds, and then by arrival.
    waiting: Vec<(i32, u32, String, Permits)>,
}

impl ByHand {
    fn has_room(&self, permits: &[(String, u32)]) -> bool {
        permits
            .iter()
            .all(|(name, count)| self.in_use[name] + count <= self.capacity[name])
    }

    fn could_ever(&self, permits: &[(String, u32)]) -> bool {
        permits
            .iter()
            .all(|(name, count)| *count <= self.capacity[name])
    }

    /// Whether an ask wants more than the capacity of a semaphore that is not closed.
    fn exceeds(&self, permits: &[(String, u32)]) -> bool {
        permits
            .iter()
            .any(|(name, count)| (1..*count).contains(&self.capacity[name]))
    }

    fn take(&mut self, id: String, permits: Permits) {
        for (name, count) in &permits {
            *self.in_use.get_mut(name).unwrap() += count;
        }
        self.held.insert(id, permits);
    }

    /// Whether a waiter is ahead of a caller of `priority` that comes now.
    fn is_taken(&self, priority: i32, permits: &[(String, u32)]) -> bool {
        self.waiting.iter().any(|(its, _, _, wanted)| {
            *its >= priority && self.could_ever(wanted) && share(wanted, permits)
        })
    }

    /// Serves all waiters that can be served.
    fn serve(&mut self) {
        let mut taken: Vec<Permits> = Vec::new();
        let mut left = Vec::new();
        self.waiting
            .sort_by_key(|(priority, number, ..)| (-priority, *number));
        for (priority, number, id, permits) in std::mem::take(&mut self.waiting) {
            let is_free = !taken.iter().any(|others| share(others, &permits));
            if is_free && self.has_room(&permits) {
                self.take(id, permits);
                continue;
            }
            if self.could_ever(&permits) {
                taken.push(permits.clone());
            }
            left.push((priority, number, id, permits));
        }
        self.waiting = left;
    }
}

fn share(one: &[(String, u32)], other: &[(String, u32)]) -> bool {
    one.iter()
        .any(|(name, _)| other.iter().any(|(wanted, _)| wanted == name))
}

fn some_permits(random: &mut fastrand::Rng) -> Permits {
    let mut names = NAMES;
    random.shuffle(&mut names);
    let some = names.iter().take(random.usize(1..=3));
    some.map(|name| ((*name).to_owned(), random.u32(1..=3)))
        .collect()
}

fn made(id: &str, permits: &[(String, u32)]) -> Ask {
    let permits: Vec<_> = permits
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    ask(id, &permits)
}

/// After every step exactly the right waiters hold permits: no waiter is overtaken, none waits without a reason, and the batch
/// that makes room serves all waiters that fit, without a further poll.
#[tokio::test(start_paused = true)]
async fn exactly_the_waiters_that_fit_are_served() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (lockhouse, _) = house(&[("a", 3), ("b", 4), ("c", 3)]).await;
        let mut by_hand = ByHand::default();
        for (name, capacity) in [("a", 3), ("b", 4), ("c", 3)] {
            by_hand.capacity.insert(name.to_owned(), capacity);
            by_hand.in_use.insert(name.to_owned(), 0);
        }
        let mut callers = BTreeMap::new();
        for step in 0..80 {
            let id = format!("r{step}");
            let what = one_step(
                &mut random,
                &lockhouse,
                &mut by_hand,
                &mut callers,
                step,
                &id,
            )
            .await;
            by_hand.serve();
            idle().await;
            let holders = lockhouse.holders(None, None, 1000).await.unwrap();
            let holding = holders.requests.iter();
            let mut holding: Vec<_> = holding.map(|r| r.external_id.to_string()).collect();
            holding.sort();
            let expected: Vec<_> = by_hand.held.keys().cloned().collect();
            assert_eq!(holding, expected, "seed {seed}, step {step}: {what}");
            for name in NAMES {
                let waiting = lockhouse.status(name).await.unwrap().waiting as usize;
                let wants = |permits: &[(String, u32)]| permits.iter().any(|(n, _)| n == name);
                let expected = by_hand.waiting.iter().filter(|w| wants(&w.3)).count();
                assert_eq!(waiting, expected, "seed {seed}, step {step}: {what}");
            }
        }
    }
}

async fn one_step(
    random: &mut fastrand::Rng,
    lockhouse: &Lockhouse,
    by_hand: &mut ByHand,
    callers: &mut BTreeMap<String, Caller>,
    step: u32,
    id: &str,
) -> String {
    match random.u32(0..20) {
        0..9 => {
            let permits = some_permits(random);
            let priority = [0, 0, 0, 5, -5][random.usize(0..5)];
            let what = format!("{id} of {priority} waits for {permits:?}");
            let asked = preferred(priority, made(id, &permits));
            let caller = Caller::waits(lockhouse, asked, LONG).await;
            if by_hand.exceeds(&permits) {
                assert_eq!(
                    caller.answer().await.unwrap_err().code(),
                    Code::ExceedsCapacity
                );
                return what;
            }
            by_hand
                .waiting
                .push((priority, step, id.to_owned(), permits));
            callers.insert(id.to_owned(), caller);
            what
        }
        9..12 => {
            let permits = some_permits(random);
            let priority = [0, 5][random.usize(0..2)];
            let tried = grant(lockhouse, preferred(priority, made(id, &permits))).await;
            let what = format!("{id} of {priority} tries {permits:?}: {tried:?}");
            if by_hand.exceeds(&permits) {
                assert_eq!(tried.unwrap_err().code(), Code::ExceedsCapacity, "{what}");
            } else if by_hand.is_taken(priority, &permits) || !by_hand.has_room(&permits) {
                assert_eq!(tried.unwrap_err().code(), Code::Exhausted, "{what}");
            } else {
                assert!(tried.is_ok(), "{what}");
                by_hand.take(id.to_owned(), permits);
            }
            what
        }
        12..17 => {
            let Some(id) = random.choice(by_hand.held.keys()).cloned() else {
                return String::new();
            };
            assert!(lockhouse.release(&id).await.unwrap().now);
            for (name, count) in by_hand.held.remove(&id).unwrap() {
                *by_hand.in_use.get_mut(&name).unwrap() -= count;
            }
            format!("{id} is released")
        }
        17..19 => {
            if by_hand.waiting.is_empty() {
                return String::new();
            }
            let (_, _, id, _) = by_hand
                .waiting
                .remove(random.usize(0..by_hand.waiting.len()));
            drop(callers.remove(&id).unwrap());
            idle().await;
            format!("{id} goes away")
        }
        _ => {
            let (name, capacity) = (NAMES[random.usize(0..3)], random.u32(0..=5));
            lockhouse.define(name, capacity).await.unwrap();
            by_hand.capacity.insert(name.to_owned(), capacity);
            format!("{name} has {capacity}")
        }
    }
}

/// The same while batches take time and calls overlap: of two callers of one semaphore, the one that called first has the lower
/// fence, if it waited.
#[tokio::test(start_paused = true)]
async fn commands_do_not_overtake_in_the_queue() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        fastrand::seed(seed);
        let (lockhouse, store) = house(&[("a", 3), ("b", 4), ("c", 3)]).await;
        store.slow_us.store(3000, Ordering::SeqCst);
        let mut calls = Vec::new();
        for number in 0..120 {
            let permits = some_permits(&mut random);
            let waits = random.u32(0..4) > 0;
            let hold = Duration::from_micros(random.u64(0..4000));
            let gives_up = (random.u32(0..8) == 0).then(|| random.u64(0..50_000));
            let lockhouse = lockhouse.clone();
            let call = async move {
                let id = format!("r{number}");
                let wait = if waits { LONG } else { Duration::ZERO };
                let asked = lockhouse.acquire(made(&id, &permits), wait);
                let granted = match gives_up.map(Duration::from_micros) {
                    None => asked.await,
                    Some(patience) => match tokio::time::timeout(patience, asked).await {
                        Ok(answer) => answer,
                        Err(_) => {
                            // The request may be held nevertheless.
                            let _ = lockhouse.release(&id).await;
                            return None;
                        }
                    },
                };
                let (request, _) = match granted {
                    Ok(granted) => granted,
                    Err(error) => {
                        assert!(!waits && error.code() == Code::Exhausted, "{error:?}");
                        return None;
                    }
                };
                tokio::time::sleep(hold).await;
                lockhouse.release(&id).await.unwrap();
                Some((waits, request))
            };
            calls.push(tokio::spawn(call));
            tokio::time::sleep(Duration::from_micros(random.u64(0..1500))).await;
        }
        let served = tokio::time::timeout(Duration::from_secs(600), join_all(calls));
        let answers = served.await.expect("all are served");
        let granted: Vec<_> = answers.into_iter().filter_map(Result::unwrap).collect();
        for (i, (waited, first)) in granted
            .iter()
            .enumerate()
            .filter(|(_, (waited, _))| *waited)
        {
            for (_, second) in &granted[i + 1..] {
                for permit in &first.permits {
                    let mut same = second.permits.iter();
                    if let Some(its) = same.find(|its| its.semaphore == permit.semaphore) {
                        assert!(
                            permit.fence < its.fence,
                            "seed {seed}: {first:?} {second:?} {waited}"
                        );
                    }
                }
            }
        }
        for name in NAMES {
            let status = lockhouse.status(name).await.unwrap();
            assert_eq!(
                (status.waiting, status.semaphore.in_use),
                (0, 0),
                "seed {seed}"
            );
        }
    }
}
