//! `lockhouse-bench suite`.

use std::path::PathBuf;
use std::{env, fs};

use clap::Args;
use lockhouse_bench::progress::{Progress, Stderr};
use lockhouse_bench::suite::{self, Places, Scale};
use lockhouse_bench::{Failed, print};
use tokio::signal;
use tokio::sync::watch;

use super::output::{Format, print};

/// Everything, beside the yardsticks, and held against the targets
///
/// The databases are servers' URLs; in each it makes databases and drops them again. Without
/// one, what takes it is left out, and said so. Ctrl-C ends it early with what it has, and as a failure.
#[derive(Args, Debug)]
pub(crate) struct Suite {
    #[arg(long, env = "LOCKHOUSE_TEST_MYSQL_URL")]
    mysql: Option<String>,
    #[arg(long, env = "LOCKHOUSE_TEST_MARIADB_URL")]
    mariadb: Option<String>,
    #[arg(long, env = "LOCKHOUSE_TEST_POSTGRES_URL")]
    postgres: Option<String>,
    #[arg(long, env = "LOCKHOUSE_TEST_REDIS_URL")]
    redis: Option<String>,
    #[arg(long, env = "LOCKHOUSE_TEST_ETCD_URL")]
    etcd: Option<String>,
    /// The lockhouse program; unless said, that beside this one
    #[arg(long, value_name = "PROGRAM")]
    lockhouse: Option<PathBuf>,
    /// Only the contests whose names have one of these in them
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Everything small and short, to see that it runs
    #[arg(long)]
    quick: bool,
    /// Rounds of each contest
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds that are measured in each round
    #[arg(long)]
    seconds: Option<f64>,
    /// Write all that was measured there, as JSON
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

impl Suite {
    pub(super) async fn perform(self) -> Result<(), Failed> {
        let scale = self.scale();
        let places = self.places();
        if places.lockhouse.is_none() {
            Stderr.say("there is no lockhouse program beside this one, so no server is measured");
        }
        let (stop, stopped) = watch::channel(false);
        let interrupted = tokio::spawn(async move {
            if signal::ctrl_c().await.is_ok() {
                let _ = stop.send(true);
            }
            // As long as nobody interrupts, somebody must be able to.
            std::future::pending::<()>().await;
        });
        let report = suite::run(&places, &scale, &self.only, &Stderr, &stopped).await;
        let was_interrupted = *stopped.borrow();
        interrupted.abort();
        let report = report?;
        Stderr.clear();
        let json = serde_json::to_string_pretty(&report)?;
        if let Some(file) = &self.to {
            fs::write(file, format!("{json}\n"))?;
        }
        print(&match self.output {
            Format::Table => print::report(&report),
            Format::Json => format!("{json}\n"),
        })?;
        match was_interrupted {
            true => Err("interrupted: there is more to measure".into()),
            false => Ok(()),
        }
    }

    fn scale(&self) -> Scale {
        let scale = match self.quick {
            true => Scale::quick(),
            false => Scale::full(),
        };
        Scale {
            rounds: self.rounds.unwrap_or(scale.rounds),
            time_ms: self
                .seconds
                .map_or(scale.time_ms, |seconds| (seconds * 1e3) as u64),
            ..scale
        }
    }

    fn places(&self) -> Places {
        let beside = || {
            let program = env::current_exe().ok()?.with_file_name("lockhouse");
            program.exists().then_some(program)
        };
        Places {
            mysql: self.mysql.clone(),
            mariadb: self.mariadb.clone(),
            postgres: self.postgres.clone(),
            redis: self.redis.clone(),
            etcd: self.etcd.clone(),
            lockhouse: self.lockhouse.clone().or_else(beside),
        }
    }
}
