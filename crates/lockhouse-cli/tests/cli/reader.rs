//! A reader who types what a page says.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The code blocks of a text that begin with this line after the fence.
pub(crate) fn in_text(kind: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(kind) {
            let block = lines.by_ref().take_while(|line| *line != "```");
            found.push(block.map(|line| format!("{line}\n")).collect());
        }
    }
    found
}

/// The variables by which Cargo tells a program of the crate that it is of.
const OF_A_CRATE: [&str; 5] = [
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PRIMARY_",
];

/// A reader with a fresh home.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = env!("CARGO");
        // `scripts/test` has built it as printed.
        let (debug, shift) = match std::env::var_os("LOCKHOUSE_TEST_BINARY") {
            Some(_) => ("", "shift"),
            None => ("--debug", "shift 2"),
        };
        let shim = format!(
            "case $1 in\n\
             install) exec {real} \"$@\" {debug} --quiet --root {home:?} ;;\n\
             run) {shift}; exec {real} run --quiet \"$@\" ;;\n\
             *) exit 1 ;;\n\
             esac",
            home = folder.path(),
        );
        let home = Self { folder };
        home.program("cargo", &shim);
        home
    }

    /// A shell script that the reader can call.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let path = self.folder.path().join(name);
        // Written by another process: one that a test begins meanwhile would inherit the open file, and Linux
        // executes no file that is open for writing.
        let mut install = Command::new("install");
        install.args(["-m", "755", "/dev/stdin"]).arg(path);
        let mut install = install.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = install.stdin.take().unwrap();
        write!(stdin, "#!/bin/sh\n{script}\n").unwrap();
        drop(stdin);
        assert!(install.wait().unwrap().success());
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// In the root of the repository.
    pub(crate) fn bash(&self, script: &str) -> Command {
        let home = self.folder.path();
        let path = std::env::var("PATH").unwrap();
        let mut bash = Command::new("bash");
        bash.args(["-euc", script])
            .current_dir(root())
            .env(
                "PATH",
                format!("{}:{}/bin:{path}", home.display(), home.display()),
            )
            .env("XDG_STATE_HOME", home.join("state"))
            .env_remove("LOCKHOUSE_URL")
            .stdin(Stdio::null());
        // The variables that Cargo sets for a test are not in a reader's shell, and would make
        // Cargo rebuild what depends on them.
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if name == "OUT_DIR" || OF_A_CRATE.iter().any(|prefix| name.starts_with(prefix)) {
                bash.env_remove(&variable);
            }
        }
        bash
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
