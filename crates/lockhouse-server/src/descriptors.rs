//! Limits on open files.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that are reserved for the process itself: connections to databases, files.
const OWN: u64 = 64;

/// Connections that are reserved for calls without a wait.
const SHORT_CALLS: u64 = 1024;

/// The most connections, however many files may be open: each takes some memory.
const MOST: u64 = 65_536;

/// How many connections there may be, and how many calls may wait on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: usize,
    pub(crate) waits: usize,
}

impl Bounds {
    /// The bounds for the process's current limit.
    pub(crate) fn of_the_process() -> io::Result<Self> {
        let (files, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        Ok(Self::of(files))
    }

    /// A quarter of the connections is for calls that do not wait, and half of the files for callers
    /// at least.
    fn of(files: u64) -> Self {
        let own = OWN.min(files / 2);
        let connections = (files - own).clamp(2, MOST);
        let short = (connections / 4).clamp(1, SHORT_CALLS);
        let [connections, waits] = [connections, connections - short].map(|most| {
            // At most `MOST`.
            usize::try_from(most).unwrap_or(usize::MAX)
        });
        Self { connections, waits }
    }
}

/// Raises the soft limit of open files to the hard one. Returns the new limit.
///
/// # Errors
/// The [`io::Error`] of the system if it does not tell the limit, or does not let this process raise it. The limit is then
/// unchanged.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::RLIM_INFINITY;

    #[test]
    fn waits_leave_descriptors_for_other_calls_at_any_limit() {
        for (files, connections, waits) in [
            (0, 2, 1),
            (16, 8, 6),
            (256, 192, 144),
            (1024, 960, 720),
            (1_048_576, 65_536, 64_512),
            (RLIM_INFINITY, 65_536, 64_512),
        ] {
            assert_eq!(Bounds::of(files), Bounds { connections, waits }, "{files}");
        }
    }
}
