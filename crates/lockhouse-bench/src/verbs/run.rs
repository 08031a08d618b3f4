//! `lockhouse-bench run`.

use clap::Args;
use lockhouse_bench::contender::{Database, Kind};
use lockhouse_bench::measured::Measured;
use lockhouse_bench::progress::Stderr;
use lockhouse_bench::shape::Shape;
use lockhouse_bench::{Failed, load, print};
use tokio::signal;

use super::Format;

/// One contender under one load
///
/// Ctrl-C ends it early, and what was measured until then is printed.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Where: a database server without a database gets one for the run, and `sqlite:` a file;
    /// several of one database, or several servers of it, share the clients
    #[arg(long, required = true)]
    url: Vec<String>,
    /// Who is under load
    #[arg(long, value_enum, default_value = "lockhouse")]
    contender: Kind,
    /// Engines in this process on the same database
    #[arg(long, default_value_t = 1)]
    engines: usize,
    /// How many at once
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// How many semaphores there are
    #[arg(long, default_value_t = 1)]
    semaphores: usize,
    /// On how many of them each ask is
    #[arg(long, default_value_t = 1)]
    each: usize,
    /// How many permits of each
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// Of each semaphore; unless said, there is room for everybody
    #[arg(long)]
    capacity: Option<u32>,
    /// Milliseconds that permits are held
    #[arg(long, default_value_t = 0)]
    hold_ms: u64,
    /// Requests that hold before it begins
    #[arg(long, default_value_t = 0)]
    held: u32,
    /// Requests that have ended before it begins
    #[arg(long, default_value_t = 0)]
    ended: u32,
    /// Seconds before what is measured
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Seconds that are measured
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// What the clients' choices begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to print
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

impl Run {
    pub(super) async fn perform(self) -> Result<(), Failed> {
        let mut urls = self.url.clone();
        let database = Database::at(&urls[0]).await?;
        database.url().clone_into(&mut urls[0]);
        let measured = self.measure(&urls).await;
        database.clear().await?;
        let measured = measured?;
        super::print(&match self.output {
            Format::Table => print::measured(&measured),
            Format::Json => format!("{}\n", serde_json::to_string(&measured)?),
        })
    }

    async fn measure(&self, urls: &[String]) -> Result<Measured, Failed> {
        let shape = self.shape();
        let contender = self.contender.open(urls, self.engines).await?;
        contender.prepare(&shape).await?;
        let measured = load::run(&*contender, &shape, &Stderr, signal::ctrl_c()).await;
        Stderr.clear();
        contender.clear().await?;
        measured
    }

    fn shape(&self) -> Shape {
        let ms = |seconds: f64| (seconds * 1e3) as u64;
        Shape {
            clients: self.clients,
            semaphores: self.semaphores,
            each: self.each,
            count: self.count,
            capacity: self.capacity,
            hold_ms: self.hold_ms,
            held: self.held,
            ended: self.ended,
            warm_up_ms: ms(self.warm_up),
            time_ms: ms(self.seconds),
            seed: self.seed,
        }
    }
}
