//! A short run, for a test.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::faults::Fault;
use super::{Report, Size, run};

/// Limits the runs at a time: each has many processes, which have to work again in time.
static TURN: Semaphore = Semaphore::const_new(3);

/// The rest of clients, which leaves processor time to other tests.
const REST: Duration = Duration::from_millis(60);

/// How long a run may take until each fault has happened.
const AT_MOST: Duration = Duration::from_secs(300);

/// Tortures `store` until each fault has happened once, unless `sets` changes that, and prints the report. `program` is
/// `torture`, which the run's processes run. The seed is `LOCKHOUSE_TORTURE_SEED`, or 1.
///
/// The notes of a run that broke a promise are kept, unless its store is broken on purpose.
///
/// # Panics
/// If the seed is no number, or there is no place for temporary files.
pub async fn short(
    program: &str,
    store: &str,
    faults: &[Fault],
    sets: impl FnOnce(&mut Size),
) -> Report {
    let _turn = TURN.acquire().await.unwrap();
    let seed = std::env::var("LOCKHOUSE_TORTURE_SEED");
    let folder = tempfile::Builder::new()
        .prefix("torture")
        .tempdir()
        .unwrap();
    // PostgreSQL's user must be able to read the folder.
    set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let mut size = Size {
        store: store.to_owned(),
        faults: faults.to_vec(),
        tasks: 5,
        rest: REST,
        calm: Duration::from_millis(300),
        duration: AT_MOST,
        seed: seed.map_or(1, |seed| seed.parse().unwrap()),
        folder: folder.path().to_owned(),
        fill: false,
        scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts"),
        without_locks: false,
        flaw: None,
        mends_late: false,
        rounds: 4,
        once: true,
        until_broken: false,
        says: true,
    };
    sets(&mut size);
    let is_true = !size.without_locks && size.flaw.is_none() && !size.mends_late;
    let report = run(Path::new(program), &size).await;
    println!("{report}");
    if is_true && !report.violations.is_empty() {
        println!("the notes are in {:?}", folder.keep());
    }
    report
}
