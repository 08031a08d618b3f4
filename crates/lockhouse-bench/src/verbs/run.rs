//! `lockhouse-bench run`.

use clap::Args;
use lockhouse_bench::contender::{Database, Kind};
use lockhouse_bench::options::Options;
use lockhouse_bench::progress::Stderr;
use lockhouse_bench::{Failed, load, print};
use tokio::signal::unix::{SignalKind, signal};

use super::output::{Format, print};

/// One contender under one load
///
/// Ctrl-C ends it early, and what was measured until then is printed.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Where: a database server without a database gets one for the run, and `sqlite:` a file;
    /// several of one database, or several servers of it, share the clients
    #[arg(long, required = true)]
    url: Vec<String>,
    /// The contender under load
    #[arg(long, value_enum, default_value = "lockhouse")]
    contender: Kind,
    /// Engines in this process on the same database
    #[arg(long, default_value_t = 1)]
    engines: usize,
    #[command(flatten)]
    options: Options,
    /// How to print
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

impl Run {
    pub(super) async fn perform(self) -> Result<(), Failed> {
        let shape = self.options.shape()?;
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut urls = self.url.clone();
        let database = Database::at(&urls[0]).await?;
        database.url().clone_into(&mut urls[0]);
        let measured = async {
            let contender = self.contender.open(&urls, self.engines).await?;
            load::bench(&*contender, &shape, &Stderr, interrupts.recv()).await
        };
        let measured = measured.await;
        Stderr.clear();
        database.clear().await?;
        let Some(measured) = measured? else {
            return Err("interrupted before anything was measured".into());
        };
        print(&match self.output {
            Format::Table => print::measured(&measured),
            Format::Json => format!("{}\n", serde_json::to_string(&measured)?),
        })
    }
}
