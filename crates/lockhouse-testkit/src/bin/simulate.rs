//! Runs of the engine under virtual time, by their seeds:
//!
//! `cargo run --release -p lockhouse-testkit --bin simulate -- [seeds=N] [from=SEED] [threads=N] [failures=N]`
//! `cargo run --release -p lockhouse-testkit --bin simulate -- seed=SEED [keep=STEP,STEP…]`
//!
//! docs/proof.md describes the simulation. A run that breaks a promise is shortened and printed. After `failures` such runs
//! the program exits with 1.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockhouse_testkit::simulation::{self, Failure};

const USAGE: &str = "\
usage: simulate [seeds=1000] [from=0] [threads=as many as there are cores] [failures=1]
       simulate seed=SEED [keep=STEP,STEP…]   one run, or a part of it, with all that happens";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Some(code) => code,
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(64)
        }
    }
}

/// `None` if the arguments make no sense.
fn run(arguments: &[String]) -> Option<ExitCode> {
    let (mut seed, mut keep) = (None, None);
    let (mut seeds, mut from, mut most) = (1_000, 0, 1);
    let mut threads = thread::available_parallelism().map_or(1, usize::from);
    for argument in arguments {
        match argument.split_once('=')? {
            ("seed", number) => seed = Some(number.parse().ok()?),
            ("keep", numbers) => keep = Some(steps(numbers)?),
            ("seeds", number) => seeds = number.parse().ok()?,
            ("failures", number) => most = number.parse().ok()?,
            ("from", number) => from = number.parse().ok()?,
            ("threads", number) => threads = number.parse().ok().filter(|some| *some > 0)?,
            _ => return None,
        }
    }
    Some(match seed {
        Some(seed) => one(seed, keep.as_deref()),
        None => many(from, seeds, threads, most),
    })
}

fn steps(numbers: &str) -> Option<Vec<usize>> {
    numbers
        .split(',')
        .map(|number| number.parse().ok())
        .collect()
}

fn one(seed: u64, keep: Option<&[usize]>) -> ExitCode {
    let is_kept = |number: usize| keep.is_none_or(|keep| keep.contains(&number));
    let plan = simulation::plan(seed).only(is_kept);
    println!("{plan}");
    let ran = simulation::run(&plan, None, true);
    for line in &ran.log {
        println!("{line}");
    }
    match ran.violation {
        None => {
            println!("\nall is well");
            ExitCode::SUCCESS
        }
        Some(_) => {
            if let Err(failure) = simulation::check_plan(&plan, None) {
                println!("\n{failure}");
            }
            ExitCode::FAILURE
        }
    }
}

/// State that the threads share.
struct Progress {
    next: AtomicU64,
    end: u64,
    done: AtomicU64,
    failures: Mutex<Vec<Failure>>,
    /// The run ends after so many failures.
    most: usize,
    is_over: AtomicBool,
}

fn many(from: u64, seeds: u64, threads: usize, most: usize) -> ExitCode {
    let begun = Instant::now();
    let progress = Progress {
        next: AtomicU64::new(from),
        end: from + seeds,
        done: AtomicU64::new(0),
        failures: Mutex::default(),
        most,
        is_over: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| progress.run()))
            .collect();
        scope.spawn(|| progress.show(begun, seeds));
        for run in runs {
            run.join().expect("a run does not panic");
        }
        progress.is_over.store(true, Ordering::Relaxed);
    });
    let (done, took) = (progress.done.load(Ordering::Relaxed), begun.elapsed());
    let rate = done as f64 / took.as_secs_f64();
    println!("{done} seeds from {from} on in {took:.1?}, {rate:.0} a second, on {threads} threads");
    let failures = progress.failures.into_inner().expect("nobody panicked");
    for failure in &failures {
        println!("\n{failure}");
    }
    if failures.is_empty() {
        println!("all is well");
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}

impl Progress {
    fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return;
            }
            if let Err(failure) = simulation::check(seed, None) {
                let mut failures = self.failures.lock().expect("nobody panicked");
                failures.push(*failure);
                let is_over = failures.len() >= self.most;
                self.is_over.fetch_or(is_over, Ordering::Relaxed);
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn show(&self, begun: Instant, seeds: u64) {
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(200));
            let done = self.done.load(Ordering::Relaxed);
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            eprint!("\r{done} of {seeds} seeds, {rate:.0} a second ");
            // Progress that cannot be shown is no error.
            let _ = std::io::stderr().flush();
        }
        eprintln!();
    }
}
