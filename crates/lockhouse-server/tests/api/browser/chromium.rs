//! Runs Debian's Chromium without a window.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Every name under `.example` is the tests' own; nothing else is looked up.
const RESOLVE: &str = "--host-resolver-rules=MAP *.example 127.0.0.1, EXCLUDE localhost, EXCLUDE 127.0.0.1, MAP * ~NOTFOUND";

const QUIETLY: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// How long a browser may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// Chromium, which is there.
#[derive(Clone, Copy)]
pub(crate) struct Chromium(());

/// A browser that shows a page, and is stopped when this is dropped.
pub(crate) struct Browser {
    process: Child,
    _profile: TempDir,
}

impl Chromium {
    /// None where Chromium is missing.
    ///
    /// # Panics
    /// If it is missing and `LOCKHOUSE_TEST_FULL` is set.
    pub(crate) fn find() -> Option<Self> {
        let mut version = Command::new("chromium");
        let version = version.arg("--version").stdout(Stdio::null());
        let version = version.stderr(Stdio::null()).status();
        if version.is_ok_and(|status| status.success()) {
            return Some(Self(()));
        }
        assert!(
            std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
            "Chromium is not installed, and a full run leaves nothing out; use scripts/test"
        );
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let left_out = format!("left out: {test} (Chromium is not installed)\n");
        // Past the test harness's capture, so that it is seen.
        let _ = std::io::stderr().write_all(left_out.as_bytes());
        None
    }

    /// A browser that opens `url`.
    pub(crate) fn open(self, url: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut command = command(&profile);
        let process = command.arg(url).stdout(Stdio::null()).spawn().unwrap();
        Browser {
            process,
            _profile: profile,
        }
    }

    /// The text of the page at `url` after three seconds of its time.
    pub(crate) fn text_of(self, url: &str) -> String {
        let profile = tempfile::tempdir().unwrap();
        let mut command = command(&profile);
        let shown = command.args(["--virtual-time-budget=3000", "--dump-dom", url]);
        let shown = shown.output().unwrap();
        assert!(shown.status.success(), "{shown:?}");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }
}

fn command(profile: &TempDir) -> Command {
    let mut command = Command::new("chromium");
    command.args(QUIETLY).arg(RESOLVE).stderr(Stdio::null());
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command
}

impl Drop for Browser {
    /// In order, so that its helpers end with it.
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let until = Instant::now() + STOP;
        while Instant::now() < until {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
