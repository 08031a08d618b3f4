//! Runs `counted` under valgrind's callgrind.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

const COUNTED: &str = env!("CARGO_BIN_EXE_counted");

/// The function of `counted` whose instructions are counted. The stars match any mangled name.
const COUNTED_IN: &str = "*counted_in_here*";

/// Callgrind, which is installed.
pub(crate) struct Callgrind(());

impl Callgrind {
    /// `None` if valgrind is missing.
    ///
    /// # Panics
    /// If valgrind is missing and `LOCKHOUSE_TEST_FULL` is set.
    pub(crate) fn find() -> Option<Self> {
        let mut version = Command::new("valgrind");
        let version = version.arg("--version").stdout(Stdio::null()).status();
        if version.is_ok_and(|status| status.success()) {
            return Some(Self(()));
        }
        assert!(
            std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
            "valgrind is not installed, and a full run leaves nothing out; use scripts/test"
        );
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // Written past the test harness's capture, so that people see it.
        let _ = writeln!(
            std::io::stderr(),
            "left out: {test} (valgrind is not installed)"
        );
        None
    }

    /// How many instructions each pair of `workload` takes.
    pub(crate) fn a_pair(&self, workload: &str) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counts");
        let output = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(format!("--toggle-collect={COUNTED_IN}"))
            .args([COUNTED, workload])
            .output()
            .unwrap();
        assert!(output.status.success(), "{workload}: {output:?}");
        let pairs = String::from_utf8(output.stdout).unwrap();
        let pairs: u64 = pairs.trim().parse().unwrap();
        let total = total(&fs::read_to_string(&file).unwrap());
        assert!(total > 0, "nothing was counted in {COUNTED_IN}");
        total / pairs
    }
}

/// All instructions in an output file of callgrind.
fn total(counts: &str) -> u64 {
    let mut lines = counts.lines();
    let total = lines.find_map(|line| line.strip_prefix("totals: "));
    total.expect("a line of totals").trim().parse().unwrap()
}
