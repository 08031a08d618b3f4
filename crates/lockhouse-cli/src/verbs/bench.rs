//! `lockhouse bench`.

use clap::Args;
use lockhouse::Error;
use lockhouse_bench::contender::LockhouseContender;
use lockhouse_bench::options::Options;
use lockhouse_bench::progress::Stderr;
use lockhouse_bench::{Failed, load, print};
use nix::sys::signal::Signal;
use tokio::sync::oneshot;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hold::Signals;

/// Find out how fast it is on your database
///
/// Clients acquire and release permits, each as fast as it is answered, of semaphores that are made
/// for it, and deleted when it ends. The ended requests stay until they are purged. On a store's URL
/// an engine in this process does the work; on a server's, the server.
///
/// It takes as much of the database as it can get: mind who else uses it. A signal ends it early,
/// and what was measured until then is printed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockhouse bench
  lockhouse bench --clients 512 --seconds 30 --url mysql://app@db/lockhouse
  lockhouse bench --semaphores 100 --each 3 -o json | jq .rate")]
pub(crate) struct Bench {
    #[command(flatten)]
    options: Options,
}

impl Bench {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let shape = self.options.shape();
        let shape = shape.map_err(|error| Failure::with_exit(Exit::USAGE, error.to_string()))?;
        let mut signals = Signals::listen([Signal::SIGINT, Signal::SIGTERM])?;
        let urls = [global.place()?.url().to_owned()];
        let contender = LockhouseContender::connect(&urls, 1)
            .await
            .map_err(failure)?;
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(async move {
            let first = signals.end().await;
            // It is gone only if the load has ended already.
            let _ = stop.send(first);
            let second = signals.end().await;
            std::process::exit(Exit::of_signal(second).code());
        });
        let mut interrupted = None;
        let stop = async {
            match stopped.await {
                Ok(signal) => interrupted = Some(signal),
                Err(_) => std::future::pending().await,
            }
        };
        let measured = load::bench(&contender, &shape, &Stderr, stop).await;
        Stderr.clear();
        match (measured.map_err(failure)?, interrupted) {
            (Some(measured), _) => {
                let text = || print::measured(&measured).trim_end().to_owned();
                global.output.print(|| &measured, text)?;
                match measured.pairs {
                    0 => Err(Failure::other(
                        "nobody acquired and released within the time",
                    )),
                    _ => Ok(Exit::OK),
                }
            }
            (None, Some(signal)) => Err(Failure::Interrupted(signal)),
            (None, None) => Err(Failure::other(
                "nothing was measured: --seconds is too short",
            )),
        }
    }
}

fn failure(error: Failed) -> Failure {
    match error.downcast::<Error>() {
        Ok(error) => Failure::Lockhouse(*error),
        Err(error) => Failure::other(error.to_string()),
    }
}
