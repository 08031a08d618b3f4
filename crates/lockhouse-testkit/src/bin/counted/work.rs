//! The parts that the workloads share.

/// Extra work beside the workload, to see that the count detects it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slip {
    None,
    /// Each decision is made twice.
    DecidesTwice,
    /// Each decision adds up all held permits.
    SumsHeld,
}

/// The `n`th id. Ids are in no order, like those of callers.
pub(super) fn id(n: usize) -> String {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    format!("job-{:016x}", (n as u64).wrapping_mul(ODD))
}
