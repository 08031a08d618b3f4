//! The name of this process, used where a caller did not say who acts.

use std::sync::LazyLock;
use std::{env, fs, process};

use lockhouse_core::Owner;

static NAME: LazyLock<Option<Owner>> = LazyLock::new(|| {
    let host = env::var("HOSTNAME").or_else(|_| fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.unwrap_or_default();
    let pid = process::id();
    let name = match host.trim() {
        "" => format!("pid {pid}"),
        host => format!("{host}:{pid}"),
    };
    // The environment may hold any text.
    Owner::parse(name)
        .or_else(|_| Owner::parse(format!("pid {pid}")))
        .ok()
});

/// `build-7:4711`: the host and the pid.
pub(crate) fn this_process() -> Option<Owner> {
    NAME.clone()
}
