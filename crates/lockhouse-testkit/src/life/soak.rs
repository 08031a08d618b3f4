//! All operations at once, for any time: processes acquire and release, renew and abandon, send heartbeats and stop sending
//! them, resize, delete, force and purge. Now and then the run kills one. Meanwhile it reads the rows, which must keep P1, P2,
//! P3, P7 and P8.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;

use super::processes::Process;
use super::{Report, say};
use crate::place::Place;
use crate::rows::Rows;
use crate::{audit, rows};

mod living;
mod scene;

pub(super) use living::live;
use scene::{DELETED, FORGOTTEN, PURGE_AFTER, RESIZED, STEADY, upkeep};

const AUDIT_EVERY: Duration = Duration::from_millis(200);

/// The ways to end a request that every run goes through.
const REASONS: [&str; 5] = ["released", "expired", "owner_dead", "stale", "forced"];

/// How much longer a run may take until everything has happened. On a busy machine little happens in a short one.
const UNTIL_ALL: Duration = Duration::from_secs(60);

/// How long the longest hold may take to end by itself, once nobody renews it.
const LAST_END: Duration = Duration::from_secs(15);

/// How large the run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many processes live at once.
    pub processes: u32,
    /// For how long at least. It goes on until everything has happened once.
    pub duration: Duration,
    /// How often one of them is killed, and another started.
    pub kill_every: Duration,
    /// The seed of the processes and the kills.
    pub seed: u64,
}

/// The observations.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How often each way to end a request was seen in the rows.
    pub ended: BTreeMap<String, u64>,
    /// How many audits there were.
    pub audits: u64,
    /// How many requests were deleted again.
    pub purged: u64,
    /// How many changes of a capacity.
    pub resizes: usize,
    /// How many processes were killed.
    pub kills: u32,
}

impl Outcome {
    /// The events, and how often they happened.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        for (reason, count) in &self.ended {
            report.say(format!("requests that ended as {reason}"), count);
        }
        report.say("requests purged", self.purged);
        report.say("resizes", self.resizes);
        report.say("processes killed", self.kills);
        report.say("audits, none of which found anything", self.audits);
        report
    }

    /// The events that have not happened yet, in words.
    fn missing(&self) -> Vec<String> {
        let ends = REASONS.map(|reason| {
            (
                self.ended.contains_key(reason),
                format!("an end as {reason}"),
            )
        });
        let others = [
            (self.purged > 0, "a purge".to_owned()),
            (self.resizes > 0, "a resize".to_owned()),
            (self.kills > 0, "a kill".to_owned()),
        ];
        let all = ends.into_iter().chain(others);
        all.filter(|(is_seen, _)| !is_seen)
            .map(|(_, what)| what)
            .collect()
    }
}

/// Soaks. `program` is `life`.
///
/// # Panics
/// If the rows break a promise, a process gets an answer that can't be right, something stays
/// held when all is over, or something that a process does never happened.
pub async fn run(place: &Place, program: &Path, size: Size) -> Outcome {
    let lockhouse = place.client().await;
    for (name, capacity) in STEADY.into_iter().chain(RESIZED).chain([DELETED]) {
        lockhouse.define(name, capacity).await.unwrap();
    }
    let (dock, forgotten) = FORGOTTEN;
    lockhouse.define(dock, 1).await.unwrap();
    let forgotten = lockhouse
        .request_with_id(forgotten)
        .permits(dock, 1)
        .without_ttl();
    forgotten.acquire().await.unwrap().forget();
    let mut random = fastrand::Rng::with_seed(size.seed);
    let mut started = 0;
    let mut start = |seed: u64| {
        started += 1;
        let (prefix, seed) = (format!("p{started}"), seed.to_string());
        Process::start(program, &["live", place.url(), &prefix, &seed])
    };
    let mut processes: Vec<_> = (0..size.processes).map(|_| start(random.u64(..))).collect();
    let mut auditor = Auditor::default();
    let begun = Instant::now();
    let (mut kill_at, mut say_at) = (begun + size.kill_every, begun);
    let goes_on = |outcome: &Outcome| {
        let longer = begun.elapsed().saturating_sub(size.duration);
        longer.is_zero() || longer < UNTIL_ALL && !outcome.missing().is_empty()
    };
    while goes_on(&auditor.outcome) {
        auditor.look_at(place.url()).await;
        if Instant::now() >= kill_at {
            kill_at += size.kill_every;
            let which = random.usize(..processes.len());
            processes[which].kill();
            processes[which] = start(random.u64(..));
            auditor.outcome.kills += 1;
        }
        if Instant::now() >= say_at {
            say_at += size.duration / 10;
            say(format_args!(
                "{:.0?}: {}",
                begun.elapsed(),
                auditor.progress()
            ));
        }
        tokio::time::sleep(AUDIT_EVERY).await;
    }
    for process in processes {
        let (well, said) = process.end().await;
        assert!(well, "a process failed; it said: {said}");
    }
    auditor.look_at(place.url()).await;
    all_ends(&lockhouse, place.url(), &mut auditor).await;
    assert_eq!(auditor.outcome.missing(), [""; 0]);
    auditor.outcome
}

/// With nobody left, all that is held ends by itself.
async fn all_ends(lockhouse: &Lockhouse, url: &str, auditor: &mut Auditor) {
    let until = Instant::now() + LAST_END;
    loop {
        lockhouse.sweep(&upkeep()).await.unwrap();
        let rows = auditor.look_at(url).await;
        if rows.semaphores.iter().all(|row| row.in_use == 0) {
            break;
        }
        assert!(Instant::now() < until, "still held: {:?}", rows.semaphores);
        tokio::time::sleep(AUDIT_EVERY).await;
    }
    assert_eq!(lockhouse.verify().await.unwrap(), []);
}

/// Looks at the rows again and again, and remembers.
#[derive(Default)]
struct Auditor {
    seen: HashMap<(String, String), Known>,
    /// When it began to look last.
    looked: Option<Instant>,
    fences: HashMap<String, i64>,
    outcome: Outcome,
}

/// The known facts about a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    fence: i64,
    count: i64,
    granted_at: i64,
    ended: Option<(i64, String)>,
}

impl Auditor {
    async fn look_at(&mut self, url: &str) -> Rows {
        let began = Instant::now();
        let rows = rows::read(url).await;
        // On a slow machine a permit may have ended and been purged since the last look.
        let seen_to_end = self
            .looked
            .is_none_or(|looked| looked.elapsed() < PURGE_AFTER);
        self.look(&rows, seen_to_end);
        self.looked = Some(began);
        rows
    }

    /// If `seen_to_end`, no permit was kept for so short that its end could not be seen.
    fn look(&mut self, rows: &Rows, seen_to_end: bool) {
        assert_eq!(audit::violations(rows), [""; 0]);
        let mut seen = HashMap::with_capacity(rows.permits.len());
        for row in &rows.permits {
            let key = (row.external_id.clone(), row.semaphore.clone());
            let ended = row.released_at.zip(row.end_reason.clone());
            let now = Known {
                fence: row.fence,
                count: row.count,
                granted_at: row.granted_at,
                ended,
            };
            let was = self.seen.remove(&key);
            self.compare(&key, was, &now);
            seen.insert(key, now);
        }
        // P3: only what has ended is ever gone, and then as a whole.
        for (key, known) in self.seen.drain() {
            assert!(
                known.ended.is_some() || !seen_to_end,
                "gone while it was live: {key:?} {known:?}"
            );
            self.outcome.purged += 1;
        }
        self.seen = seen;
        for row in &rows.semaphores {
            let fence = self.fences.entry(row.name.clone()).or_default();
            assert!(
                row.fence >= *fence,
                "P7: the fence of {} went back",
                row.name
            );
            *fence = row.fence;
        }
        self.outcome.resizes = rows.capacity_changes.len();
        self.outcome.audits += 1;
    }

    /// P3 and P7: nothing but the end of a permit ever changes, and that once; and one that is new
    /// has a fence beyond all that were there when it was looked last.
    fn compare(&mut self, key: &(String, String), was: Option<Known>, now: &Known) {
        match &was {
            Some(was) if was.ended.is_some() => assert_eq!(was, now, "changed: {key:?}"),
            Some(was) => {
                let still = Known {
                    ended: None,
                    ..now.clone()
                };
                assert_eq!(*was, still, "changed: {key:?}");
            }
            None => {
                let last = self.fences.get(&key.1).copied().unwrap_or(0);
                assert!(
                    now.fence > last,
                    "P7: {key:?} came late: {now:?} after {last}"
                );
            }
        }
        let had_ended = was.is_some_and(|was| was.ended.is_some());
        if let (false, Some((_, reason))) = (had_ended, &now.ended) {
            *self.outcome.ended.entry(reason.clone()).or_default() += 1;
        }
    }

    fn progress(&self) -> String {
        let ended: Vec<_> = self
            .outcome
            .ended
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        let (kills, audits) = (self.outcome.kills, self.outcome.audits);
        format!("{} · {kills} killed, {audits} audits", ended.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{PermitRow, SemaphoreRow};

    fn rows(fence: i64, permits: &[(i64, Option<(i64, &str)>)]) -> Rows {
        let permit = |&(fence, ended): &(i64, Option<(i64, &str)>)| {
            let state = if ended.is_some() {
                "RELEASED"
            } else {
                "ACQUIRED"
            };
            PermitRow {
                external_id: format!("r{fence}"),
                semaphore: "s".into(),
                count: 1,
                fence,
                slots: None,
                owner: None,
                state: state.into(),
                end_reason: ended.map(|(_, reason)| reason.into()),
                granted_at: fence,
                expires_at: None,
                released_at: ended.map(|(at, _)| at),
            }
        };
        let permits: Vec<_> = permits.iter().map(permit).collect();
        let live = permits.iter().filter(|row| row.released_at.is_none());
        let semaphore = SemaphoreRow {
            name: "s".into(),
            capacity: 9,
            in_use: live.count() as i64,
            fence,
            created_at: 0,
            is_deleted: false,
        };
        Rows {
            semaphores: vec![semaphore],
            permits,
            capacity_changes: Vec::new(),
        }
    }

    #[test]
    fn a_life_as_it_should_be_is_counted() {
        let mut auditor = Auditor::default();
        auditor.look(&rows(2, &[(1, None), (2, Some((5, "expired")))]), true);
        let ends = [
            (1, Some((6, "forced"))),
            (2, Some((5, "expired"))),
            (3, None),
        ];
        auditor.look(&rows(3, &ends), true);
        auditor.look(&rows(3, &[(3, None)]), true);
        let Outcome { ended, purged, .. } = auditor.outcome;
        assert_eq!(purged, 2);
        let expected = [("expired", 1), ("forced", 1)];
        assert_eq!(
            ended,
            expected.map(|(reason, n)| (reason.to_owned(), n)).into()
        );
    }

    #[test]
    fn an_end_may_be_missed_between_looks_that_are_far_apart() {
        let mut auditor = Auditor::default();
        auditor.look(&rows(1, &[(1, None)]), true);
        auditor.look(&rows(1, &[]), false);
        assert_eq!(auditor.outcome.purged, 1);
    }

    #[track_caller]
    fn is_caught(first: Rows, second: Rows) {
        let caught = std::panic::catch_unwind(move || {
            let mut auditor = Auditor::default();
            auditor.look(&first, true);
            auditor.look(&second, true);
        });
        assert!(caught.is_err());
    }

    #[test]
    fn a_life_that_goes_wrong_is_caught() {
        let released = Some((5, "released"));
        // It ends twice; it comes back to life; it is purged alive; a fence goes back; a grant
        // with a fence of before.
        is_caught(
            rows(1, &[(1, released)]),
            rows(1, &[(1, Some((6, "expired")))]),
        );
        is_caught(rows(1, &[(1, released)]), rows(1, &[(1, None)]));
        is_caught(rows(1, &[(1, None)]), rows(1, &[]));
        is_caught(rows(2, &[]), rows(1, &[]));
        is_caught(rows(2, &[(2, None)]), rows(2, &[(1, None), (2, None)]));
    }
}
