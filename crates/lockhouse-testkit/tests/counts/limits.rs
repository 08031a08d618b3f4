//! The limits of the workloads.
//!
//! To set them again, after a change that is worth it or for a new compiler, take the numbers that `cargo test
//! -p lockhouse-testkit --test counts -- --nocapture` prints, and add a quarter. The quarter is for other compilers, C
//! libraries and processors, as none of them is pinned.

/// Instructions for a pair, in an ordinary build for tests.
pub(crate) const LIMITS: [(&str, u64); 7] = [
    ("decide-1", 25_800),
    ("decide-256", 20_600),
    ("decide-1-wide", 951_000),
    ("decide-256-wide", 364_000),
    ("engine-1", 446_000),
    ("engine-64", 276_000),
    ("engine-64-for-8", 468_000),
];

/// How many times its cost in an empty store a pair may cost in a crowded one.
pub(crate) const FLAT: f64 = 1.1;

/// How many times its cost on a semaphore without slots a pair may cost on a semaphore with 64.
pub(crate) const SLOTTED: f64 = 1.1;

/// The message if `count` is over the limit of `workload`.
pub(crate) fn over(workload: &str, count: u64) -> Option<String> {
    let (_, limit) = LIMITS.iter().find(|(name, _)| *name == workload)?;
    (count > *limit)
        .then(|| format!("{workload}: {count} instructions a pair, over its limit of {limit}"))
}
