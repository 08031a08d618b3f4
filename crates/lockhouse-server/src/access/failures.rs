//! How many calls with a wrong token an address may make.
//!
//! A caller with a good token is never limited here, so nobody locks out others behind the same address.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::rate::{Rate, Rates};

const RATE: Rate = Rate {
    burst: 20,
    every: Duration::from_millis(500),
};

/// So many addresses are kept in mind: those that failed last.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not 0");

/// The addresses that failed lately.
#[derive(Debug)]
pub(crate) struct Failures(Rates<IpAddr>);

impl Failures {
    pub(crate) fn new() -> Self {
        Self(Rates::new(RATE, ADDRESSES))
    }

    /// Counts a failure of `address`, and says whether it is one too many.
    pub(crate) fn is_too_many(&self, address: IpAddr) -> bool {
        self.is_too_many_at(address, Instant::now())
    }

    fn is_too_many_at(&self, address: IpAddr, now: Instant) -> bool {
        self.0.take_at(network(address), now).is_none()
    }
}

/// Of IPv6 a caller has as many addresses as it likes: its network counts.
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
