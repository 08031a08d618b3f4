//! `torture --store STORE …`: clients and servers on a private database, under faults. Usually `scripts/torture` runs it,
//! and prepares everything that it needs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use lockhouse_testkit::torture::faults::{ALL, Fault};
use lockhouse_testkit::torture::{STORES, Size, Topology, part, run, try_several_writers};
use tokio::runtime::{Builder, Runtime};

const USAGE: &str = "\
usage: scripts/torture --store sqlite|mysql|mariadb|postgres|redis|valkey [OPTIONS]

The run starts clients and servers as separate processes, on a separate database. The clients make all kinds of
calls, while one fault after the other begins and is mended. Checkers then judge the history of all calls.

  --store STORE        which store is tortured; its server is started for this run alone. Also multi-primary,
                       single-primary or galera, a cluster that scripts/cluster-run has started: it has the
                       faults kill-server, and of its nodes kill-database, stop-database and read-only
  --faults NAME,NAME…  which faults there are [all]
  --minutes N          for how long faults are begun; 0.5 is half a minute [5]
  --once               end when each fault has come once, if that is sooner
  --clients N          how many things each client does at once [8]
  --rest MS            how long a client rests at most after each thing that it does, or longer where calls are slow [0]
  --calm SECONDS       the most time without a fault before each round; every third round has at least 4.5 [1.5]
  --rounds N           how many rounds make a segment, which is checked when it is over [5]
  --seed S             the seed of all random choices; the same seed gives the same plan [1]
  --plan               print the plan, and do nothing
  --until-broken       end at the first broken promise
  -o json              print the report as JSON, and no progress
  --folder FOLDER      where data and notes are kept [a new one under /tmp, removed if all is well]
  --disk-may-be-filled FOLDER/data is a file system of the run's own, on which disk-full may come
  --without-locks      clients and servers do without the store's locks, to see that it is found out

While it runs, it prints a line for each round: seconds, operations, faults so far, violations, the faults of the
round, and how long it took until all were at work again, which must not be more than 10 s. FOLDER has the output of
the database and the processes, and keeps the notes of a segment that broke a promise.
Exit: 0 if nothing was broken, 1 if something was, 64 if the options make no sense.

Full disks need a file system of the run's own: scripts/torture mounts one, as root, unless --folder is
given. Elsewhere disk-full is left out, also of \"all\".

Faults:";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("process", arguments)) = arguments.split_first().map(|(a, b)| (a.as_str(), b)) {
        // A run has many processes on a small machine. A server has the threads of a production server.
        let mut threads = match arguments.first().map(String::as_str) {
            Some("serve") => Builder::new_multi_thread(),
            _ => Builder::new_current_thread(),
        };
        runtime(&mut threads).block_on(part::main(arguments));
        // The process exits at once, without waiting for calls under way.
        std::process::exit(0);
    }
    if arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match Options::read(&arguments) {
        Ok(options) => runtime(&mut Builder::new_multi_thread()).block_on(options.perform()),
        Err(what) => {
            eprintln!("torture: {what}\n\n{}", usage());
            ExitCode::from(64)
        }
    }
}

fn runtime(threads: &mut Builder) -> Runtime {
    let runtime = threads.enable_all().build();
    runtime.expect("a machine has threads")
}

fn usage() -> String {
    let mut usage = USAGE.to_owned();
    for (fault, name) in ALL {
        usage += &format!("\n  {name}");
        for store in STORES {
            if let Some(why) = fault.left_out(store) {
                usage += &format!(" (not on {store}: {why})");
            }
        }
    }
    usage
}

struct Options {
    size: Size,
    minutes: f64,
    plan: bool,
    json: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut options = Self {
            size: Size {
                store: String::new(),
                faults: ALL.map(|(fault, _)| fault).to_vec(),
                tasks: 8,
                rest: Duration::ZERO,
                calm: Duration::from_millis(1_500),
                duration: Duration::ZERO,
                seed: 1,
                folder: PathBuf::new(),
                fill: false,
                scripts: here.join("../../scripts"),
                without_locks: false,
                flaw: None,
                rounds: 5,
                once: false,
                until_broken: false,
                mends_late: false,
                says: true,
            },
            minutes: 5.0,
            plan: false,
            json: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} takes a value"));
            match word.as_str() {
                "--store" => options.size.store = value()?.clone(),
                "--faults" => options.size.faults = faults(value()?)?,
                "--minutes" => options.minutes = number(word, value()?)?,
                "--clients" => options.size.tasks = number(word, value()?)?,
                "--rest" => options.size.rest = Duration::from_millis(number(word, value()?)?),
                "--calm" => {
                    let calm = Duration::try_from_secs_f64(number(word, value()?)?);
                    options.size.calm = calm.map_err(|error| format!("{word}: {error}"))?;
                }
                "--rounds" => options.size.rounds = number(word, value()?)?,
                "--seed" => options.size.seed = number(word, value()?)?,
                "--folder" => options.size.folder = value()?.into(),
                "--disk-may-be-filled" => options.size.fill = true,
                "--without-locks" => options.size.without_locks = true,
                "--once" => options.size.once = true,
                "--until-broken" => options.size.until_broken = true,
                "--plan" => options.plan = true,
                "-o" if value()? == "json" => options.json = true,
                _ => return Err(format!("unknown argument {word:?}; --help lists them")),
            }
        }
        options.checked()
    }

    fn checked(mut self) -> Result<Self, String> {
        let store = &*self.size.store;
        if !STORES.contains(&store) && Topology::named(store).is_none() {
            return Err(format!(
                "--store is one of {}, or a cluster",
                STORES.join(", ")
            ));
        }
        if !self.minutes.is_finite() || self.minutes <= 0.0 {
            return Err("--minutes is a time of more than nothing".to_owned());
        }
        if self.size.tasks == 0 || self.size.rounds == 0 {
            return Err("--clients and --rounds are more than none".to_owned());
        }
        self.size.duration = Duration::from_secs_f64(self.minutes * 60.0);
        self.size.says = !self.json;
        if self.size.possible().is_empty() {
            return Err(format!("{} can have none of these faults", self.size.store));
        }
        if self.size.folder.as_os_str().is_empty() && !self.plan {
            return Err("--folder says where data and notes are kept".to_owned());
        }
        Ok(self)
    }

    async fn perform(self) -> ExitCode {
        if self.plan {
            let mut rounds = self.size.plan().rounds_within(self.minutes);
            if self.size.once {
                rounds.truncate(self.size.possible().len());
            }
            for round in rounds {
                println!("{round}");
            }
            return ExitCode::SUCCESS;
        }
        let program = std::env::current_exe().expect("a program knows where it is");
        let report = run(&program, &self.size).await;
        if self.json {
            println!("{:#}", report.json());
        } else {
            println!("{report}");
        }
        if !report.violations.is_empty() {
            return ExitCode::FAILURE;
        }
        let wrong = try_several_writers(&self.size).await;
        for wrong in &wrong {
            eprintln!("  WRONG: {wrong}");
        }
        ExitCode::from(u8::from(!wrong.is_empty()))
    }
}

fn number<T: FromStr>(option: &str, text: &str) -> Result<T, String> {
    let number = text.parse();
    number.map_err(|_| format!("{option} can't be {text:?}"))
}

fn faults(names: &str) -> Result<Vec<Fault>, String> {
    if names == "all" {
        return Ok(ALL.map(|(fault, _)| fault).to_vec());
    }
    let fault = |name| Fault::named(name).ok_or(format!("no fault is called {name:?}"));
    names.split(',').map(fault).collect()
}
