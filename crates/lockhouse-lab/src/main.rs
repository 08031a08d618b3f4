//! `lockhouse-lab`: shows how hand-written locks break on a database, and that Lockhouse does not.

mod verbs;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use lockhouse::Lockhouse;
use lockhouse_lab::gate::{self, StaleWrite};
use lockhouse_lab::lab::{self, LOCKHOUSE, Run, Verdict};
use lockhouse_lab::strategy::Strategy;
use serde_json::json;
use tempfile::TempDir;

use verbs::Verb;
use verbs::output::{
    FAILED, Failure, Format, INTERRUPTED, UNAVAILABLE, USAGE, columns, complain, write_out,
};
use verbs::signals::Signals;

/// See how locks that are written by hand break on your database
///
/// The lab puts the usual ways to write a lock in SQL through what happens to locks: a crowd, a holder that
/// dies, a late holder, a lost answer, a fast clock. Lockhouse goes through the same scenes, except for the
/// clock. Each client records what it was told. A checker decides which promises were broken, and in how
/// many rounds.
///
/// The strategies use tables of their own, `lockhouse_lab_…`, which the lab drops when it ends, also
/// after a signal. Lockhouse uses its own tables, and creates them if they are missing. Its semaphores are
/// deleted; its ended requests stay until they are purged. The lab needs a database's URL, not a server's.
///
/// `lockhouse-lab redis` does the same with the locks that articles show on Redis.
#[derive(Debug, Parser)]
#[command(
    name = "lockhouse-lab",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
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

Exit codes: 0, or 1 if Lockhouse broke a promise; 64 usage, 69 database unavailable.

Examples:
  lockhouse-lab
  lockhouse-lab --url mysql://app@db/test
  lockhouse-lab --strategy stale-count --strategy lockhouse --seconds 30
  lockhouse-lab --url mysql://app@db1/test --node mysql://app@db2/test --node mysql://app@db3/test
  lockhouse-lab --gate
  lockhouse-lab redis
  lockhouse-lab -o json | jq '.verdicts[].broken[].shown'"
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The database; unless given, an SQLite file that is removed afterwards
    #[arg(long, env = "LOCKHOUSE_URL", hide_env_values = true)]
    url: Option<String>,
    /// Only this strategy; may be given several times
    #[arg(long = "strategy", value_name = "NAME")]
    strategies: Vec<String>,
    /// Another node of the cluster that --url is one of; may be given several times
    #[arg(long = "node", value_name = "URL")]
    nodes: Vec<String>,
    /// Show instead what a writer does that is paused past its TTL, with a fence gate and without
    #[arg(long, conflicts_with_all = ["strategies", "nodes", "seconds"])]
    gate: bool,
    /// How long each strategy goes on, beyond one round
    #[arg(long, value_name = "N", default_value_t = 0)]
    seconds: u64,
    /// How to print
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that went away is no error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    match cli.perform().await {
        Ok(code) => ExitCode::from(code),
        Err(Failure(code, text)) => {
            complain(&format!("lockhouse-lab: {text}"));
            ExitCode::from(code)
        }
    }
}

impl Cli {
    async fn perform(mut self) -> Result<u8, Failure> {
        if let Some(verb) = self.verb.take() {
            return verb.perform().await;
        }
        let (url, _folder) = self.database()?;
        let urls = [std::slice::from_ref(&url), &self.nodes].concat();
        let strategies = self.chosen(lab::strategies(&urls))?;
        let stop = stop_on_signal()?;
        let mut nodes = Vec::new();
        for url in &urls {
            let connected = Lockhouse::connect(url).await;
            nodes.push(connected.map_err(|error| Failure(UNAVAILABLE, error.to_string()))?);
        }
        if self.gate {
            let shown = gate::show(&nodes[0], &url).await;
            self.print_gates(&shown.map_err(|error| Failure(FAILED, error.to_string()))?)?;
            return Ok(0);
        }
        let run = Run {
            time: Duration::from_secs(self.seconds),
            stop: &stop,
            progress: &|verdict| self.tell(verdict),
        };
        let mut verdicts = Vec::new();
        for strategy in strategies {
            let tried = lab::try_out(strategy, &urls, &run).await;
            if tried.is_err() {
                // Only the first of several errors is shown.
                let _ = lab::clear(&url).await;
            }
            verdicts.push(tried.map_err(|error| Failure(FAILED, error.to_string()))?);
        }
        if self.wants(LOCKHOUSE) {
            let tried = lab::try_out_lockhouse(&nodes, &run).await;
            verdicts.push(tried.map_err(|error| Failure(FAILED, error.to_string()))?);
        }
        verdicts.retain(|verdict| verdict.rounds > 0);
        if verdicts.is_empty() && stop.load(Ordering::Relaxed) {
            return Ok(INTERRUPTED);
        }
        self.print(&verdicts)?;
        let mut own = verdicts.iter().filter(|v| v.strategy == LOCKHOUSE);
        let is_broken = own.any(|verdict| !verdict.broken.is_empty());
        Ok(if is_broken { FAILED } else { 0 })
    }

    /// The URL, and the folder of its file if that is the lab's own.
    fn database(&self) -> Result<(String, Option<TempDir>), Failure> {
        if let Some(url) = &self.url {
            return Ok((url.clone(), None));
        }
        let folder = tempfile::tempdir().map_err(|error| Failure(FAILED, error.to_string()))?;
        let url = format!("sqlite:{}", folder.path().join("lab.db").display());
        Ok((url, Some(folder)))
    }

    fn wants(&self, name: &str) -> bool {
        self.strategies.is_empty() || self.strategies.iter().any(|wanted| wanted == name)
    }

    fn chosen(
        &self,
        there: Vec<&'static dyn Strategy>,
    ) -> Result<Vec<&'static dyn Strategy>, Failure> {
        if there.is_empty() {
            let text = "--url is not that of a database; the lab needs one that has SQL";
            return Err(Failure(USAGE, text.to_owned()));
        }
        let is_unknown = |wanted: &&String| {
            *wanted != LOCKHOUSE && there.iter().all(|strategy| strategy.name() != *wanted)
        };
        if let Some(unknown) = self.strategies.iter().find(is_unknown) {
            let names: Vec<_> = there.iter().map(|strategy| strategy.name()).collect();
            let names = names.join(", ");
            let text = format!("--strategy is {unknown}; here it is one of {names}, {LOCKHOUSE}");
            return Err(Failure(USAGE, text));
        }
        let there = there.into_iter();
        Ok(there
            .filter(|strategy| self.wants(strategy.name()))
            .collect())
    }

    /// Prints a line for each round, on a terminal.
    fn tell(&self, verdict: &Verdict) {
        if self.output == Format::Table && io::stderr().is_terminal() {
            let (name, rounds, broken) = (verdict.strategy, verdict.rounds, verdict.broken.len());
            complain(&format!("{name}: round {rounds}, {broken} promises broken"));
        }
    }

    fn print(&self, verdicts: &[Verdict]) -> Result<(), Failure> {
        write_out(&match self.output {
            Format::Table => table(verdicts),
            Format::Json => json!({ "verdicts": verdicts }).to_string(),
        })
    }

    fn print_gates(&self, shown: &[StaleWrite]) -> Result<(), Failure> {
        write_out(&match self.output {
            Format::Table => stale_writes(shown),
            Format::Json => json!({ "stale_writes": shown }).to_string(),
        })
    }
}

/// Becomes true at the first signal. The second one ends the process at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let mut signals = Signals::listen(&[])?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    tokio::spawn(async move {
        signals.next().await;
        stopped.store(true, Ordering::Relaxed);
        signals.next().await;
        std::process::exit(INTERRUPTED.into());
    });
    Ok(stop)
}

fn stale_writes(shown: &[StaleWrite]) -> String {
    let mut rows = vec![["CAPACITY", "FENCE GATE", "THE STALE WRITE"].map(str::to_owned)];
    rows.extend(shown.iter().map(|write| {
        let gate = if write.gate { "yes" } else { "no" };
        let became = match write.replaced {
            true => "replaced its successor's",
            false => "was refused",
        };
        [
            write.capacity.to_string(),
            gate.to_owned(),
            became.to_owned(),
        ]
    }));
    columns(&rows)
}

fn table(verdicts: &[Verdict]) -> String {
    let mut rows = vec![["STRATEGY", "WHAT BROKE", "ROUNDS"].map(str::to_owned)];
    for verdict in verdicts {
        let (name, rounds) = (verdict.strategy, verdict.rounds);
        let broken = verdict.broken.iter().map(|broken| {
            let what = format!("{}: {}", broken.promise, broken.what);
            [
                name.to_owned(),
                what,
                format!("{} of {rounds}", broken.rounds),
            ]
        });
        rows.extend(broken);
        if verdict.broken.is_empty() {
            rows.push([name, "nothing", &format!("0 of {rounds}")].map(str::to_owned));
        }
    }
    columns(&rows)
}
