//! Checks that all processes work again after a fault. Every server and every live client must soon get an answer to each
//! kind of call, without help: to a heartbeat, and to an ask for every semaphore (`probe`). So a semaphore that something
//! keeps locked is found.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::Lockhouse;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::crew::Crew;
use super::notes::Notes;
use super::probe;
use super::segment::OURS;
use super::segment::Segment;
use crate::history::{Recorded, now_us};

/// How soon all processes must work again, unless the database is a cluster.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// How long the check waits beyond that for a late process, to report how late it was.
const BEYOND: Duration = Duration::from_secs(20);

/// How long after `mended_us` the last part took to work again, and the parts that took longer than `soon`, in words. The
/// calls use names of `segment`, and are recorded in `notes`.
pub(super) async fn at_work_since(
    crew: &Crew,
    (segment, notes): (Segment, &Arc<Notes>),
    (mended_us, soon): (u64, Duration),
) -> (Duration, Vec<String>) {
    let at_most = soon + BEYOND;
    let mut servers = JoinSet::new();
    for (nth, server) in crew.servers.iter().enumerate() {
        let asking = Asking {
            url: format!("http://{}", server.address),
            notes: Arc::clone(notes),
            segment,
            name: format!("{}m{mended_us}s{nth}", segment.prefix()),
            mended_us,
            at_most,
        };
        servers.spawn(async move { (format!("server {nth}"), asking.until_all_works().await) });
    }
    let mut took = Vec::new();
    let mut waited_for: Vec<usize> = (0..crew.clients.len()).collect();
    while !waited_for.is_empty() && since(mended_us) < at_most {
        waited_for.retain(|nth| {
            let client = &crew.clients[*nth];
            let works = client.says().at_work_us > mended_us;
            if works {
                took.push((format!("client {}", client.number), since(mended_us)));
            }
            !works
        });
        sleep(Duration::from_millis(20)).await;
    }
    for nth in waited_for {
        took.push((format!("client {}", crew.clients[nth].number), at_most));
    }
    took.extend(servers.join_all().await);
    let longest = took.iter().map(|(_, took)| *took).max().unwrap_or_default();
    let late = took.into_iter().filter(|(_, took)| *took > soon);
    let late = late.map(|(who, took)| format!("{who} was at work again after {took:.1?} only"));
    (longest, late.collect())
}

/// A caller of a server that bypasses the proxies.
struct Asking {
    url: String,
    notes: Arc<Notes>,
    segment: Segment,
    /// The prefix of all ids.
    name: String,
    mended_us: u64,
    /// How long the check waits for an answer.
    at_most: Duration,
}

impl Asking {
    async fn until_all_works(self) -> Duration {
        let Some(lockhouse) = self.until_it_beats().await else {
            return self.at_most;
        };
        let client = Recorded::new(lockhouse, &self.notes, OURS);
        let kinds = probe::kinds();
        let kinds = kinds.iter().enumerate();
        let all = kinds.map(|(kind, names)| self.until_decided(&client, kind, names));
        let decided = futures_util::future::join_all(all);
        let left = self.at_most.saturating_sub(since(self.mended_us));
        let decided = timeout(left, decided).await.unwrap_or_default();
        decided.into_iter().max().unwrap_or(self.at_most)
    }

    /// Each call uses a new connection.
    async fn until_it_beats(&self) -> Option<Lockhouse> {
        while since(self.mended_us) < self.at_most {
            let asked = async {
                let lockhouse = Lockhouse::connect(&self.url).await.ok()?;
                let heard = lockhouse.heartbeat("probe", Duration::from_secs(5)).await;
                heard.ok().map(|_| lockhouse)
            };
            if let Ok(Some(lockhouse)) = timeout(Duration::from_secs(2), asked).await {
                return Some(lockhouse);
            }
            sleep(Duration::from_millis(50)).await;
        }
        None
    }

    async fn until_decided(&self, client: &Recorded, kind: usize, names: &[&str]) -> Duration {
        for nth in 0.. {
            let id = format!("{}k{kind}-{nth}", self.name);
            if let Some(decided) = probe::ask(client, self.segment, &id, names).await {
                return Duration::from_micros(decided - self.mended_us);
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.at_most
    }
}

fn since(us: u64) -> Duration {
    Duration::from_micros(now_us().saturating_sub(us))
}
