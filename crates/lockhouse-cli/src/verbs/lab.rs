//! `lockhouse lab`.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use lockhouse::Lockhouse;
use lockhouse_lab::Failed;
use lockhouse_lab::lab::{self, LOCKHOUSE, Run, Verdict};
use lockhouse_lab::strategy::Strategy;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::oneshot;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hold::Signals;
use crate::output::{Format, complain};
use crate::place::invalid;
use crate::table;

/// See how locks that are written by hand break on your database
///
/// Puts the usual ways to write a lock in SQL through what happens to locks: a crowd, a holder that
/// dies, one that is late, an answer that is lost, a clock that is fast. Lockhouse goes through the
/// same, but for the clock. Each client notes what it was told, and a checker says which promises were
/// broken, and in how many rounds.
///
/// The strategies have tables of their own, `lockhouse_lab_…`, which are dropped when it ends, also
/// by a signal. Lockhouse has its own tables, made if they are missing; its semaphores are deleted,
/// and its ended requests stay until they are purged. It takes a database's URL, not a server's.
#[derive(Args, Debug)]
#[command(after_help = "\
Strategies, where the database can be spoken to like that:
  insert          INSERT as the lock
  insert-ttl      INSERT with a TTL, and a sweeper
  for-update-ttl  SELECT FOR UPDATE of a row that is a mutex with a TTL
  unlocked-count  count, and insert, without a lock
  stale-count     lock, and count in a stale snapshot (REPEATABLE READ)
  one-statement   one WITH that locks, counts and inserts (PostgreSQL)
  callers-order   locks in the order in which the caller names them
  no-unique-key   a look for the id, and no unique key on it
  fresh-id        a fresh id for every try
  client-clock    expiry by the clients' clocks
and on the nodes of a cluster of MySQL or MariaDB that takes writes on several (--node):
  for-update-sum        SELECT FOR UPDATE, a SUM of what is held, INSERT
  auto-increment-fence  INSERT; the row's AUTO_INCREMENT id is the place and the fence
and `lockhouse`, which is Lockhouse itself.

Exit codes: 0, or 1 if Lockhouse broke a promise; 64 usage, 69 store unavailable.

Examples:
  lockhouse lab
  lockhouse lab --url mysql://app@db/test
  lockhouse lab --strategy stale-count --strategy lockhouse --seconds 30
  lockhouse lab --url mysql://app@db1/test --node mysql://app@db2/test --node mysql://app@db3/test
  lockhouse lab -o json | jq '.verdicts[].broken[].shown'")]
pub(crate) struct Lab {
    /// Only this one; may be said several times
    #[arg(long = "strategy", value_name = "NAME")]
    strategies: Vec<String>,
    /// Another node of the cluster that --url is one of; may be said several times
    #[arg(long = "node", value_name = "URL")]
    nodes: Vec<String>,
    /// How long each goes on, beyond one round
    #[arg(long, value_name = "N", default_value_t = 0)]
    seconds: u64,
}

impl Lab {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let place = global.place()?;
        let urls = [&[place.url().to_owned()], &self.nodes[..]].concat();
        let strategies = self.chosen(lab::strategies(&urls))?;
        let interrupted = Interrupted::listen()?;
        let mut nodes = vec![place.connect().await?];
        for url in &self.nodes {
            nodes.push(Lockhouse::connect(url).await?);
        }
        let (format, seconds) = (global.output, self.seconds);
        let progress = |verdict: &Verdict| tell(verdict, format);
        let run = Run {
            time: Duration::from_secs(seconds),
            stop: &interrupted.stop,
            progress: &progress,
        };
        let mut verdicts = Vec::new();
        for strategy in strategies {
            let tried = lab::try_out(strategy, &urls, &run).await;
            if tried.is_err() {
                // Of what went wrong the first is told.
                let _ = lab::clear(place.url()).await;
            }
            verdicts.push(tried.map_err(|failed| failure(&failed))?);
        }
        if self.wants(LOCKHOUSE) {
            let tried = lab::try_out_lockhouse(&nodes, &run).await;
            verdicts.push(tried.map_err(|failed| failure(&failed))?);
        }
        verdicts.retain(|verdict| verdict.rounds > 0);
        if let (true, Some(signal)) = (verdicts.is_empty(), interrupted.by()) {
            return Err(Failure::Interrupted(signal));
        }
        let json = || json!({"verdicts": &verdicts});
        format.print(json, || said(&verdicts))?;
        let mut own = verdicts.iter().filter(|v| v.strategy == LOCKHOUSE);
        let broken = own.any(|verdict| !verdict.broken.is_empty());
        Ok(if broken { Exit::REFUSED } else { Exit::OK })
    }

    fn wants(&self, name: &str) -> bool {
        self.strategies.is_empty() || self.strategies.iter().any(|wanted| wanted == name)
    }

    fn chosen(
        &self,
        there: Vec<&'static dyn Strategy>,
    ) -> Result<Vec<&'static dyn Strategy>, Failure> {
        if there.is_empty() {
            return Err(invalid(
                "is not that of a database; the lab needs one that has SQL",
            ));
        }
        let known = |wanted: &&String| {
            *wanted != LOCKHOUSE && there.iter().all(|strategy| strategy.name() != *wanted)
        };
        if let Some(unknown) = self.strategies.iter().find(known) {
            let names: Vec<_> = there.iter().map(|strategy| strategy.name()).collect();
            let names = names.join(", ");
            let message =
                format!("--strategy is {unknown}; here it is one of {names}, {LOCKHOUSE}");
            return Err(Failure::with_exit(Exit::USAGE, message));
        }
        let there = there.into_iter();
        Ok(there
            .filter(|strategy| self.wants(strategy.name()))
            .collect())
    }
}

/// Whether a signal asked to end. The second one is obeyed at once.
struct Interrupted {
    stop: Arc<AtomicBool>,
    first: oneshot::Receiver<Signal>,
}

impl Interrupted {
    fn listen() -> Result<Self, Failure> {
        let mut signals = Signals::listen([Signal::SIGINT, Signal::SIGTERM])?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, first) = oneshot::channel();
        let stopped = Arc::clone(&stop);
        tokio::spawn(async move {
            let signal = signals.end().await;
            stopped.store(true, Ordering::Relaxed);
            // It is gone only if all is over.
            let _ = sender.send(signal);
            let second = signals.end().await;
            std::process::exit(Exit::of_signal(second).code());
        });
        Ok(Self { stop, first })
    }

    fn by(mut self) -> Option<Signal> {
        self.first.try_recv().ok()
    }
}

/// A line a round, to people who watch.
fn tell(verdict: &Verdict, format: Format) {
    if format == Format::Table && io::stderr().is_terminal() {
        let Verdict {
            strategy, rounds, ..
        } = verdict;
        let broken = verdict.broken.len();
        complain(&format!(
            "{strategy}: round {rounds}, {broken} promises broken"
        ));
    }
}

fn said(verdicts: &[Verdict]) -> String {
    let rows = verdicts.iter().flat_map(|verdict| {
        let rounds = verdict.rounds;
        let broken = verdict.broken.iter().map(move |broken| {
            [
                verdict.strategy.to_owned(),
                format!("{}: {}", broken.promise, broken.what),
                format!("{} of {rounds}", broken.rounds),
            ]
        });
        let nothing = || {
            let name = verdict.strategy.to_owned();
            [name, "nothing".into(), format!("0 of {rounds}")]
        };
        let whole = verdict.broken.is_empty().then(nothing);
        broken.chain(whole)
    });
    table::rows(["STRATEGY", "WHAT BROKE", "ROUNDS"], rows)
}

fn failure(failed: &Failed) -> Failure {
    Failure::other(failed.to_string())
}
