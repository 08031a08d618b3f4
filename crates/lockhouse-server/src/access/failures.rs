//! Limits the calls with a wrong token from one address.
//!
//! Callers with a valid token are never limited here, so no caller can lock out others behind the
//! same address.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

/// How many failures may come at once.
const BURST: u32 = 20;

/// How often one more may come.
const EVERY: Duration = Duration::from_millis(500);

/// How many addresses are kept: those that failed last.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not 0");

/// The addresses that failed lately.
#[derive(Debug)]
pub(crate) struct Failures(Mutex<LruCache<IpAddr, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    since: Instant,
}

impl Failures {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(ADDRESSES)))
    }

    /// Counts a failure of `address`. Returns whether it is one too many.
    pub(crate) fn is_too_many(&self, address: IpAddr) -> bool {
        self.is_too_many_at(address, Instant::now())
    }

    fn is_too_many_at(&self, address: IpAddr, now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Bucket {
            left: BURST,
            since: now,
        };
        let bucket = buckets.get_or_insert_mut(network(address), || full);
        let passed = now.saturating_duration_since(bucket.since);
        let more = u32::try_from(passed.as_millis() / EVERY.as_millis()).unwrap_or(BURST);
        if more > 0 {
            bucket.left = bucket.left.saturating_add(more).min(BURST);
            bucket.since = now;
        }
        let is_too_many = bucket.left == 0;
        bucket.left = bucket.left.saturating_sub(1);
        is_too_many
    }
}

/// The address, or for IPv6 its network, since a caller may have many IPv6 addresses.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_fail_so_often_and_then_more_slowly() {
        let failures = Failures::new();
        let (address, other) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let begun = Instant::now();
        for _ in 0..BURST {
            assert!(!failures.is_too_many_at(address, begun));
        }
        assert!(failures.is_too_many_at(address, begun));
        assert!(!failures.is_too_many_at(other, begun));
        let later = begun + EVERY;
        assert!(!failures.is_too_many_at(address, later));
        assert!(failures.is_too_many_at(address, later));
        let much_later = later + BURST * EVERY * 2;
        for _ in 0..BURST {
            assert!(!failures.is_too_many_at(address, much_later));
        }
        assert!(failures.is_too_many_at(address, much_later));
    }

    #[test]
    fn the_addresses_of_one_network_count_together_and_few_are_kept() {
        let failures = Failures::new();
        let now = Instant::now();
        for host in 0..BURST {
            let address = IpAddr::V6((0x2001_u128 << 112 | u128::from(host)).into());
            assert!(!failures.is_too_many_at(address, now));
        }
        let another = IpAddr::V6((0x2001_u128 << 112 | 0xffff).into());
        assert!(failures.is_too_many_at(another, now));
        for address in 0..20_000_u32 {
            failures.is_too_many_at(IpAddr::V4(address.into()), now);
        }
        let kept = failures.0.lock().unwrap().len();
        assert_eq!(kept, ADDRESSES.get());
    }
}
