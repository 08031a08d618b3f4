//! A run on a cluster of three nodes that `scripts/services cluster` has started:
//!
//! `cluster TOPOLOGY [seconds=60] [clients=4] [seed=1]`
//!
//! It kills nodes, so it uses only the nodes in `LOCKHOUSE_SERVICES_DIR`. The `lockhouse` binary must have been built beside
//! it. `scripts/cluster-run` prepares both. The run fails if a promise is broken, or if a caller's transaction ends a
//! request twice or in part (`cluster::callers`). It also fails if a lock that is known to break on several writers does not
//! (`cluster::lab`).

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lockhouse_testkit::cluster::{self, Nodes, Size, Topology};

const USAGE: &str =
    "usage: cluster multi-primary|single-primary|galera [seconds=60] [clients=4] [seed=1]";

/// How many transactions of callers of each kind there are.
const CALLERS_ROUNDS: u32 = 50;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((topology, size)) = parsed(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
    let nodes = Nodes::of(topology, script);
    let program = std::env::current_exe().unwrap().with_file_name("lockhouse");
    println!("{}, {size:?}", topology.name());
    let outcome = cluster::run(&nodes, &program, size).await;
    println!("{outcome}");
    if !outcome.violations.is_empty() {
        return ExitCode::FAILURE;
    }
    let mut wrong = cluster::callers(&nodes, CALLERS_ROUNDS, size.seed).await;
    wrong.extend(cluster::lab(&nodes, size.duration).await);
    for wrong in &wrong {
        println!("  WRONG: {wrong}");
    }
    ExitCode::from(u8::from(!wrong.is_empty()))
}

fn parsed(arguments: &[String]) -> Option<(Topology, Size)> {
    let (topology, options) = arguments.split_first()?;
    let mut size = Size {
        duration: Duration::from_secs(60),
        clients: 4,
        seed: 1,
    };
    for option in options {
        let (name, number) = option.split_once('=')?;
        let number: u64 = number.parse().ok()?;
        match name {
            "seconds" => size.duration = Duration::from_secs(number),
            "clients" => size.clients = usize::try_from(number).ok()?,
            "seed" => size.seed = number,
            _ => return None,
        }
    }
    Some((Topology::named(topology)?, size))
}
