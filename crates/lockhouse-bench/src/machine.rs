//! A description of the machine that was measured on.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Failed;

/// How often the disk is asked.
const SYNCS: usize = 200;

/// The smallest write of a database.
const BLOCK: [u8; 4096] = [7; 4096];

/// A machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// How many threads run at once.
    pub cores: usize,
    /// In MiB; 0 where it is not known.
    pub memory_mib: u64,
    /// The system's name and version.
    pub system: String,
    /// How long it takes until 4 KiB at the end of a file are on the disk: the median, in
    /// microseconds.
    pub sync_us: f64,
}

impl Machine {
    /// This one; the disk is that of `folder`.
    ///
    /// # Errors
    /// When a file can't be written in `folder`.
    pub fn this(folder: &Path) -> Result<Self, Failed> {
        let release = read("/proc/sys/kernel/osrelease");
        let number = release.split('-').next().unwrap_or_default().trim();
        Ok(Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0) / 1024,
            system: format!("{} {number}", std::env::consts::OS),
            sync_us: sync_us(folder)?,
        })
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The number after `name` in the way that /proc has it.
pub(crate) fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn sync_us(folder: &Path) -> Result<f64, Failed> {
    let path = folder.join("sync");
    let mut file = OpenOptions::new()
        .create_new(true)
        .append(true)
        .open(&path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&BLOCK)?;
        file.sync_data()?;
        took.push(begun.elapsed().as_nanos() as f64 / 1e3);
    }
    fs::remove_file(path)?;
    Ok(median(&took))
}

/// The middle one; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn values_of_proc_are_parsed() {
        let text = "MemTotal:       24684 kB\nMemFree:  12 kB\n";
        assert_eq!(kib(text, "MemTotal:"), Some(24684));
        assert_eq!(kib(text, "VmRSS:"), None);
    }
}
