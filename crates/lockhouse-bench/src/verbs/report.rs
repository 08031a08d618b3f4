//! `lockhouse-bench report`.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use lockhouse_bench::{Failed, report};

/// Write what a suite has found into the pages
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// The file that `suite --to` has written
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// The folder of benchmarks.md
    #[arg(long, value_name = "FOLDER", default_value = "docs")]
    docs: PathBuf,
}

impl Report {
    pub(super) fn perform(self) -> Result<(), Failed> {
        let found = serde_json::from_str(&fs::read_to_string(&self.from)?)?;
        report::write(&found, &self.docs)
    }
}
