//! Short constructors of names, numbers and times for tests.

use lockhouse_core::{Capacity, Count, ExternalId, Owner, SemaphoreName, Timestamp, Ttl};

pub(crate) fn name(text: &str) -> SemaphoreName {
    SemaphoreName::stored(text).expect("a test's name is valid")
}

pub(crate) fn id(text: &str) -> ExternalId {
    ExternalId::parse(text).expect("a test's id is valid")
}

pub(crate) fn owner(text: &str) -> Owner {
    Owner::parse(text).expect("a test's owner is valid")
}

pub(crate) fn count(number: u32) -> Count {
    Count::new(number).expect("a test's count is in bounds")
}

pub(crate) fn capacity(number: u32) -> Capacity {
    Capacity::new(number).expect("a test's capacity is in bounds")
}

pub(crate) fn ttl(ms: u64) -> Ttl {
    Ttl::from_ms(ms).expect("a test's TTL is in bounds")
}

/// The time that a store's clock shows `ms` milliseconds after a test began.
pub(crate) fn at(ms: i64) -> Timestamp {
    const BEGIN_MS: i64 = 1_700_000_000_000;
    Timestamp::from_millisecond(BEGIN_MS + ms).expect("a test is short")
}
