//! The `lockhouse` command: N workers, on any number of machines, may do a thing at once, and no
//! more.
//!
//! [`args`] has the arguments; [`verbs`] has one file for each verb; [`hold`] runs a command for as
//! long as its permits are held.

mod args;
mod complaint;
mod completions;
#[cfg(test)]
mod examples;
mod exit;
mod failure;
mod format;
mod global;
mod hold;
mod manual;
mod notice;
mod output;
mod service_manager;
mod setting;
mod settings;
mod table;
mod target;
mod traces;
mod upkeep;
mod verbs;
mod want;
mod who;

use std::env;
use std::io;
use std::process::ExitCode;

use clap::CommandFactory;
use tokio::runtime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use args::{Cli, Task};
use exit::Exit;
use failure::Failure;
use format::Format;
use global::Global;
use traces::Traces;
use verbs::Verb;

fn main() -> ExitCode {
    if let Some(duty) = hold::guard_duty(env::args_os()) {
        return hold::guard(&duty).into();
    }
    let exit = match settings::parse(env::args_os().collect()) {
        Ok(cli) => lockhouse(cli),
        Err(error) => misread(&error),
    };
    exit.into()
}

/// Handles arguments that cannot be parsed, or that ask for help.
fn misread(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // A reader that went away is no error.
        let _ = error.print();
        return Exit::OK;
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let failure = Failure::with_exit(Exit::USAGE, args::without_credentials(text, env::args_os()));
    failure.report(args::output_in(env::args_os()));
    failure.exit()
}

fn lockhouse(cli: Cli) -> Exit {
    let output = cli.global.output;
    let done = match cli.task {
        Task::Completions(completions) => completions.perform(Cli::command()),
        Task::Manual(manual) => manual.perform(Cli::command()),
        Task::Verb(verb) => perform(*verb, &cli.global),
    };
    done.unwrap_or_else(|failure| {
        failure.report(output);
        failure.exit()
    })
}

fn perform(verb: Verb, global: &Global) -> Result<Exit, Failure> {
    let serves = matches!(verb, Verb::Serve(_));
    let level = match global.output {
        _ if serves => "info",
        // A sweep logs how many requests it ended.
        Format::Table if matches!(verb, Verb::Sweep(_)) => "info",
        Format::Table => "warn",
        // Programs read one thing on stderr: what went wrong.
        Format::Json => "off",
    };
    // A verb does one thing, and the renewals of a hold must not depend on a second core.
    let mut runtime = if serves {
        runtime::Builder::new_multi_thread()
    } else {
        runtime::Builder::new_current_thread()
    };
    // All signals come to this thread, which holds them back while it begins to catch them.
    let runtime = hold::without_signals(|| runtime.enable_all().build())
        .and_then(|runtime| runtime)
        .map_err(|error| Failure::other(format!("cannot start: {error}")))?;
    let (logs_json, traces) = match &verb {
        Verb::Serve(serve) => (serve.logs_json(), serve.traces(runtime.handle())?),
        _ => (false, None),
    };
    log(level, logs_json, traces.as_ref());
    let done = runtime.block_on(verb.perform(global));
    if let Some(traces) = traces {
        traces.end();
    }
    // Do not wait for calls that were given up.
    runtime.shutdown_background();
    done
}

/// Logs to stderr, from `level` on unless RUST_LOG says otherwise, and traces.
fn log(level: &str, as_json: bool, traces: Option<&Traces>) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = fmt::layer().with_writer(io::stderr);
    let log = match as_json {
        true => log.json().boxed(),
        false => log.boxed(),
    };
    let log = log.with_filter(filter);
    registry().with(log).with(traces.map(Traces::layer)).init();
}
