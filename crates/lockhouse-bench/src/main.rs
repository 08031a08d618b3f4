//! `lockhouse-bench`: how fast Lockhouse is on a database, beside the yardsticks.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lockhouse_bench::contender::{
    Advisory, Article, Contender, Database, Floor, LockhouseContender, Redis, Single, settings,
};
use lockhouse_bench::progress::{self, Line};
use lockhouse_bench::shape::Shape;
use lockhouse_bench::{Failed, load, print};
use tokio::signal;

/// How fast Lockhouse is on a database, beside the yardsticks
#[derive(Debug, Parser)]
#[command(name = "lockhouse-bench", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// One contender under one load
    Run(Run),
}

/// Who is under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An engine in this process on a database's URL, or clients of a server on its http:// URL
    Lockhouse,
    /// The usual algorithm, a transaction an acquire and a connection a client: mysql://, postgres://
    Article,
    /// One autocommitted UPDATE: mysql://, postgres://
    Floor,
    /// SET NX PX and a script, on what durability the server has: redis://
    Redis,
    /// The same with appendfsync always
    RedisFsync,
    /// pg_advisory_lock: postgres://
    Advisory,
    /// SQLite with a commit for each acquire and release: sqlite:PATH
    Single,
}

#[derive(Args, Debug)]
struct Run {
    /// Where: a server's URL without a database gets one for the run; `sqlite:` a file; several,
    /// of one database, share the clients
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Run(run) => run.perform().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lockhouse-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Run {
    async fn perform(self) -> Result<(), Failed> {
        let shape = self.shape();
        let mut urls = self.url.clone();
        let database = Database::at(&urls[0]).await?;
        urls[0] = database.url().to_owned();
        let measured = self.measure(&urls, &shape).await;
        database.clear().await?;
        let measured = measured?;
        let text = match self.output {
            Format::Table => print::measured(&measured),
            Format::Json => format!("{}\n", serde_json::to_string(&measured)?),
        };
        Ok(io::stdout().write_all(text.as_bytes())?)
    }

    async fn measure(
        &self,
        urls: &[String],
        shape: &Shape,
    ) -> Result<lockhouse_bench::measured::Measured, Failed> {
        let contender = self.contender(urls).await?;
        contender.prepare(shape).await?;
        let interrupted = signal::ctrl_c();
        let measured = load::run(&*contender, shape, &Line, interrupted).await;
        progress::done();
        contender.clear().await?;
        measured
    }

    async fn contender(&self, urls: &[String]) -> Result<Box<dyn Contender>, Failed> {
        let url = &urls[0];
        Ok(match self.contender {
            Kind::Lockhouse => {
                let server = settings::of(url).await?;
                Box::new(LockhouseContender::connect(urls, self.engines, server).await?)
            }
            Kind::Article => Box::new(Article::at(url)?),
            Kind::Floor => Box::new(Floor::at(url)?),
            Kind::Redis => Box::new(Redis::at(url, false)?),
            Kind::RedisFsync => Box::new(Redis::at(url, true)?),
            Kind::Advisory => Box::new(Advisory::at(url)),
            Kind::Single => Box::new(Single::at(url)?),
        })
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
