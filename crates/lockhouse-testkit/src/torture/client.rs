//! A client process. Its tasks make all kinds of calls at random, and note each call.
//!
//! It reads on stdin which segment it is in, and ends when stdin ends. It prints its progress every 100 ms.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::Lockhouse;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::life::{Life, Who};
use super::notes::Notes;
use super::probe;
use super::segment::Segment;
use crate::broken;
use crate::history::Recorded;

/// How often a client begins probes. They depend on no other call, so a task that waits for a lost answer does not make its
/// client look stuck.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The most probes of a client at once, about those of ten seconds. Each is repeated until it is answered, so without a limit a
/// slow machine would have more and more to do, and would not recover.
const PROBES_AT_ONCE: usize = 90;

/// How many numbers each client has in the notes: for the calls of its tasks and of its probes.
const FELLOWS: u32 = 1_000;

const SAY_EVERY: Duration = Duration::from_millis(100);

/// The progress of a client, as it prints it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Says {
    /// The segment whose calls are counted.
    pub(super) segment: u32,
    /// Calls that were answered.
    pub(super) answered: u64,
    /// The last calls that showed each part at work: when the earliest of them began.
    pub(super) at_work_us: u64,
    /// Whether all segments before this one are over.
    pub(super) is_over: bool,
}

impl Says {
    pub(super) fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(Self {
            segment: u32::try_from(number()?).ok()?,
            answered: number()?,
            at_work_us: number()?,
            is_over: number()? == 1,
        })
    }

    /// Whether the client has finished that segment. A client that has printed nothing has not.
    pub(super) fn is_over_with(&self, segment: u32) -> bool {
        self.segment > segment || self.is_over
    }
}

/// The segments that stdin announces. The channel closes when stdin ends.
fn told_segments(first: u32) -> watch::Receiver<u32> {
    let (tell, told) = watch::channel(first);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let segment = line.trim_start_matches("segment ").parse().unwrap();
            let _ = tell.send(segment);
        }
    });
    told
}

/// The number of the `nth` client, from 1 on. Clients with their own engine have even numbers.
pub(super) fn number(nth: u32, has_engine: bool) -> u32 {
    2 * nth + u32::from(!has_engine)
}

/// Whether the client that the notes call `client` has its own engine, so that nothing delays its answers.
pub(super) fn has_engine(client: u32) -> bool {
    (client / FELLOWS).is_multiple_of(2)
}

/// The arguments that a client was started with.
pub(super) struct Home {
    /// The URL of a database or of a server. Further URLs are of other servers on the same cluster.
    pub(super) urls: Vec<String>,
    /// The folder of the run.
    pub(super) run: PathBuf,
    pub(super) number: u32,
    /// How many tasks the client runs at once.
    pub(super) tasks: u32,
    pub(super) rest_ms: u64,
    pub(super) seed: u64,
}

impl Home {
    /// Lives until stdin ends.
    pub(super) async fn live(&self, first: u32) {
        let mut lockhouses = Vec::new();
        while let Some(url) = self.urls.get(lockhouses.len()) {
            // The client may start during a fault.
            match broken::connect(url).await {
                Ok(lockhouse) => lockhouses.push(lockhouse),
                Err(error) => {
                    eprintln!("client {}: {error}", self.number);
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        let mut told = told_segments(first);
        loop {
            let segment = Segment(*told.borrow_and_update());
            self.segment(segment, &lockhouses, &mut told).await;
            if told.has_changed().is_err() {
                return;
            }
            // The next segment has been announced, or will be.
            if *told.borrow() == segment.0 && told.changed().await.is_err() {
                return;
            }
        }
    }

    /// Works until another segment is announced, and all calls have ended. Segment 0 is a pause.
    async fn segment(
        &self,
        segment: Segment,
        lockhouses: &[Lockhouse],
        told: &mut watch::Receiver<u32>,
    ) {
        if segment.0 == 0 {
            println!("0 0 0 1");
            let _ = told.changed().await;
            told.mark_unchanged();
            return;
        }
        let notes = Arc::new(Notes::create(&segment.notes(&self.run, self.number)));
        let (end, over) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for task in 0..self.tasks {
            let number = self.number * FELLOWS + task;
            let clients = lockhouses
                .iter()
                .map(|lockhouse| Recorded::new(lockhouse.clone(), &notes, number));
            let who = Who {
                client: self.number,
                task,
                tasks: self.tasks,
                rest_ms: self.rest_ms,
                seed: self.seed ^ u64::from(segment.0) << 32 ^ u64::from(task),
            };
            let life = Life::new(clients.collect(), segment, who, over.clone());
            tasks.spawn(life.lead());
        }
        let client = Recorded::new(
            lockhouses[0].clone(),
            &notes,
            self.number * FELLOWS + FELLOWS - 1,
        );
        // A client that rests makes fewer probes too.
        let every = PROBE_EVERY.max(Duration::from_millis(2 * self.rest_ms));
        tasks.spawn(keep_probing(client, self.number, segment, (every, over)));
        let mut say = interval(SAY_EVERY);
        loop {
            tokio::select! {
                _ = say.tick() => {}
                _ = told.changed() => break,
            }
            self.say(segment, &notes, false);
        }
        told.mark_unchanged();
        let _ = end.send(true);
        while !tasks.is_empty() {
            while let Ok(Some(done)) = timeout(SAY_EVERY, tasks.join_next()).await {
                done.unwrap();
            }
            self.say(segment, &notes, tasks.is_empty());
        }
    }

    fn say(&self, segment: Segment, notes: &Notes, is_over: bool) {
        let (answered, at_work_us) = (notes.answered(), notes.at_work(&probe::all(segment)));
        println!(
            "{} {answered} {at_work_us} {}",
            segment.0,
            u8::from(is_over)
        );
    }
}

/// Begins probes until the segment is over.
async fn keep_probing(
    client: Recorded,
    number: u32,
    segment: Segment,
    (every, mut over): (Duration, watch::Receiver<bool>),
) {
    let mut calls = JoinSet::new();
    let mut every = interval(every);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for nth in 0_u64.. {
        tokio::select! {
            _ = every.tick() => {}
            _ = over.changed() => break,
        }
        while calls.try_join_next().is_some() {}
        if calls.len() >= PROBES_AT_ONCE {
            continue;
        }
        let name = format!("{}p{number}", segment.prefix());
        let (owner, beating) = (name.clone(), client.clone());
        calls.spawn(async move {
            beating.heartbeat(&owner, Duration::from_secs(5)).await;
        });
        for (kind, names) in probe::kinds().into_iter().enumerate() {
            let (id, client) = (format!("{name}k{kind}-{nth}"), client.clone());
            calls.spawn(async move {
                probe::ask(&client, segment, &id, &names).await;
            });
        }
    }
    calls.join_all().await;
}
