//! What the process takes of its machine, under the names that all programs have for it in Prometheus.

use std::fmt;
use std::fs;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

type Seconds = Counter<f64, AtomicU64>;
type Time = Gauge<f64, AtomicU64>;

/// Appends them to `text`, of a server that began at `begun`. What the system does not tell is left out.
pub(crate) fn encode(text: &mut String, begun: SystemTime) -> fmt::Result {
    let mut registry = Registry::with_prefix("process");
    if let Some(used) = cpu_time() {
        let seconds = Seconds::default();
        seconds.inc_by(used.as_secs_f64());
        registry.register_with_unit("cpu", "Time on the processors", Unit::Seconds, seconds);
    }
    if let Some(bytes) = resident_memory() {
        let memory = gauge(bytes);
        registry.register_with_unit("resident_memory", "Memory in use", Unit::Bytes, memory);
    }
    if let Some(files) = open_files() {
        registry.register("open_fds", "Open files, connections included", gauge(files));
    }
    if let Ok((most, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        registry.register("max_fds", "The most open files", gauge(most));
    }
    if let Ok(since) = begun.duration_since(SystemTime::UNIX_EPOCH) {
        let time = Time::default();
        time.set(since.as_secs_f64());
        let help = "When the server began, since 1970";
        registry.register_with_unit("start_time", help, Unit::Seconds, time);
    }
    encode_registry(text, &registry)
}

fn gauge(value: u64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    gauge
}

fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let times = [usage.user_time(), usage.system_time()];
    let times = times.map(|time| {
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        let micros = u64::try_from(time.tv_usec()).ok()?;
        Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
    });
    times.into_iter().sum()
}

/// As Linux says it.
fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn open_files() -> Option<u64> {
    let files = fs::read_dir("/proc/self/fd").ok()?;
    u64::try_from(files.count()).ok()
}
