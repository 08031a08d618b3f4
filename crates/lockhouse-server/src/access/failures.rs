//! Limits the calls with a wrong token from one address.
//!
//! Callers with a valid token are never limited here, so no caller can lock out others behind the
//! same address.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::peer::network;
use crate::rate::{Rate, Rates};

const RATE: Rate = Rate {
    burst: 20,
    every: Duration::from_millis(500),
};

/// How many addresses are kept: those that failed last.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not 0");

/// The addresses that failed lately.
#[derive(Debug)]
pub(crate) struct Failures(Rates<IpAddr>);

impl Failures {
    pub(crate) fn new() -> Self {
        Self(Rates::new(RATE, ADDRESSES))
    }

    /// Counts a failure of `address`. Returns whether it is one too many.
    pub(crate) fn is_too_many(&self, address: IpAddr) -> bool {
        self.is_too_many_at(address, Instant::now())
    }

    fn is_too_many_at(&self, address: IpAddr, now: Instant) -> bool {
        self.0.take_at(network(address), now).is_none()
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
        for _ in 0..RATE.burst {
            assert!(!failures.is_too_many_at(address, begun));
        }
        assert!(failures.is_too_many_at(address, begun));
        assert!(!failures.is_too_many_at(other, begun));
        let later = begun + RATE.every;
        assert!(!failures.is_too_many_at(address, later));
        assert!(failures.is_too_many_at(address, later));
        let much_later = later + RATE.burst * RATE.every * 2;
        for _ in 0..RATE.burst {
            assert!(!failures.is_too_many_at(address, much_later));
        }
        assert!(failures.is_too_many_at(address, much_later));
    }

    #[test]
    fn the_addresses_of_one_network_count_together_and_few_are_kept() {
        let failures = Failures::new();
        let now = Instant::now();
        for host in 0..RATE.burst {
            let address = IpAddr::V6((0x2001_u128 << 112 | u128::from(host)).into());
            assert!(!failures.is_too_many_at(address, now));
        }
        let another = IpAddr::V6((0x2001_u128 << 112 | 0xffff).into());
        assert!(failures.is_too_many_at(another, now));
        for address in 0..20_000_u32 {
            failures.is_too_many_at(IpAddr::V4(address.into()), now);
        }
        let kept = failures.0.keys();
        assert_eq!(kept, ADDRESSES.get());
    }
}
