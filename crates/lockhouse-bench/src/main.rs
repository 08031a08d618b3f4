//! `lockhouse-bench`: measures how fast Lockhouse is on a database, beside the systems that it is compared with.

mod verbs;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use verbs::Verb;

/// How fast Lockhouse is on a database, beside the yardsticks
#[derive(Debug, Parser)]
#[command(name = "lockhouse-bench", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().verb.perform().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lockhouse-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
