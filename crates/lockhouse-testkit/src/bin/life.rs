//! The whole life of permits, at full size, on real stores:
//!
//! `cargo run --release -p lockhouse-testkit --bin life -- RUN… [STORE…] [OPTION=NUMBER…]`
//!
//! CONTRIBUTING.md describes the runs. A run fails if a promise is broken or a target is missed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockhouse::Upkeep;
use lockhouse_testkit::life::{Report, elsewhere, held, killed, listings, past, roles, silent};
use lockhouse_testkit::place::{self, Place, STORES};

const USAGE: &str = "\
usage: life RUN… [STORE…] [OPTION=NUMBER…]

runs (all, unless named):
  killed    holders are killed at once while others wait       holders=100 holding_processes=100 waiting_processes=100
  silent    an owner of thousands falls silent                  requests=10000 beats=20
  held      a sweep finds due requests among very many       held=1000000
  refused   a refusal beside requests that lapsed elsewhere  lapsed=200000 owners=0 refusals=200
  listings  a page is read among very many requests           rows=300000 calls=31
  past      the past is purged while clients acquire            ended=1000000 clients=16 rounds=5 round_s=6 batch pause_ms

stores (all, unless named): sqlite mysql mariadb mariadb11 postgres postgres18; scripts/services up starts the servers, and
eval \"$(scripts/services env)\" tells of them. killed and refused also run on redis and valkey, if named.";

const WITHOUT_SQL: [&str; 2] = ["redis", "valkey"];

const RUNS: [&str; 6] = ["killed", "silent", "held", "refused", "listings", "past"];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("process", arguments)) = arguments.split_first().map(|(a, b)| (a.as_str(), b)) {
        roles::main(arguments).await;
        return ExitCode::SUCCESS;
    }
    let options = Options(arguments);
    if let Some(unknown) = options.unknown() {
        eprintln!("unknown argument {unknown:?}; choose one of these:\n\n{USAGE}");
        return ExitCode::from(64);
    }
    let mut missed = false;
    for store in options.stores() {
        for run in options.named(&RUNS) {
            let Some(place) = place::by_name(store).await else {
                break;
            };
            println!("{run} on {store}");
            let begun = Instant::now();
            let report = options.run(run, &place).await;
            println!("{report}  took {:.0?}\n", begun.elapsed());
            missed |= report.missed();
            place.clear().await;
        }
    }
    ExitCode::from(u8::from(missed))
}

struct Options(Vec<String>);

const NUMBERS: [&str; 17] = [
    "holders",
    "holding_processes",
    "waiting_processes",
    "requests",
    "beats",
    "held",
    "lapsed",
    "owners",
    "refusals",
    "rows",
    "calls",
    "ended",
    "clients",
    "rounds",
    "round_s",
    "batch",
    "pause_ms",
];

impl Options {
    async fn run(&self, run: &str, place: &Place) -> Report {
        let program = std::env::current_exe().unwrap();
        match run {
            "killed" => {
                let size = killed::Size {
                    holders: self.number("holders", 100),
                    holding_processes: self.number("holding_processes", 100),
                    waiting_processes: self.number("waiting_processes", 100),
                    ttl: Duration::from_secs(2),
                    well_for: Duration::from_secs(5),
                };
                killed::run(place, &program, size).await.report()
            }
            "silent" => {
                let size = silent::Size {
                    requests: self.number("requests", 10_000),
                    beats: self.number("beats", 20),
                };
                silent::run(place, size).await.report()
            }
            "held" => {
                let size = held::Size {
                    held: self.number("held", 1_000_000),
                };
                held::run(place, size).await.report()
            }
            "refused" => {
                let size = elsewhere::Size {
                    lapsed: self.number("lapsed", 200_000),
                    owners: self.number("owners", 0),
                    refusals: self.number("refusals", 200),
                };
                let empty = place.beside().await;
                let outcome = elsewhere::run(&empty, place, size).await;
                empty.clear().await;
                outcome.report()
            }
            "listings" => {
                let size = listings::Size {
                    rows: self.number("rows", 300_000),
                    calls: self.number("calls", 31),
                };
                listings::run(place, size).await.report()
            }
            _ => {
                let usual = Upkeep::default();
                let pause_ms = usual.purge_pause.as_millis() as u32;
                let size = past::Size {
                    ended: self.number("ended", 1_000_000),
                    clients: self.number("clients", 16),
                    rounds: self.number("rounds", 5),
                    round: Duration::from_secs(self.number("round_s", 6).into()),
                    batch: self.number("batch", usual.purge_batch),
                    pause: Duration::from_millis(self.number("pause_ms", pause_ms).into()),
                };
                past::run(place, size).await.report()
            }
        }
    }

    fn stores(&self) -> Vec<&'static str> {
        match WITHOUT_SQL.iter().any(|name| self.names(name)) {
            true => self.named(&[&STORES[..], &WITHOUT_SQL].concat()),
            false => self.named(&STORES),
        }
    }

    fn names(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    /// The members of `all` that the arguments name, or all if they name none.
    fn named<'a>(&self, all: &[&'a str]) -> Vec<&'a str> {
        let named: Vec<_> = all
            .iter()
            .filter(|name| self.names(name))
            .copied()
            .collect();
        if named.is_empty() {
            all.to_vec()
        } else {
            named
        }
    }

    fn number(&self, name: &str, otherwise: u32) -> u32 {
        let given = self.0.iter().find_map(|argument| {
            let (option, number) = argument.split_once('=')?;
            (option == name).then(|| number.parse().unwrap())
        });
        given.unwrap_or(otherwise)
    }

    fn unknown(&self) -> Option<&str> {
        let is_known = |argument: &&String| match argument.split_once('=') {
            Some((option, number)) => NUMBERS.contains(&option) && number.parse::<u32>().is_ok(),
            None => {
                let known = [&STORES[..], &WITHOUT_SQL, &RUNS].concat();
                known.contains(&argument.as_str())
            }
        };
        let unknown = self.0.iter().find(|argument| !is_known(argument));
        unknown.map(String::as_str)
    }
}
