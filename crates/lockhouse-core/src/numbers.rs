//! Counts, capacities and TTLs: numbers whose bounds are checked when they are made.

use std::fmt;
use std::time::Duration;

use crate::Invalid;

/// The largest count and the largest capacity: 2³¹−1.
pub const MAX_COUNT: u32 = i32::MAX as u32;

/// The longest TTL: 366 days.
pub const MAX_TTL: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The shortest TTL.
const MIN_TTL: Duration = Duration::from_millis(1);

/// How many permits of one semaphore a request asks for: 1 to 2³¹−1.
///
/// ```
/// use lockhouse_core::Count;
///
/// assert_eq!(Count::new(1)?, Count::ONE);
/// assert!(Count::new(0).is_err());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(u32);

impl Count {
    /// One permit.
    pub const ONE: Count = Count(1);

    /// Checks that `count` is in bounds.
    ///
    /// # Errors
    /// [`Invalid`] on `count` if it is not 1 to 2³¹−1.
    pub fn new(count: impl Into<i128>) -> Result<Self, Invalid> {
        in_bounds("count", count.into(), 1).map(Self)
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many permits a semaphore has: 0 to 2³¹−1. At 0 it is closed.
///
/// ```
/// use lockhouse_core::Capacity;
///
/// assert_eq!(Capacity::new(0)?, Capacity::CLOSED);
/// assert!(Capacity::new(-1).is_err());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity(u32);

impl Capacity {
    /// No permits: the semaphore is closed.
    pub const CLOSED: Capacity = Capacity(0);

    /// Checks that `capacity` is in bounds.
    ///
    /// # Errors
    /// [`Invalid`] on `capacity` if it is not 0 to 2³¹−1.
    pub fn new(capacity: impl Into<i128>) -> Result<Self, Invalid> {
        in_bounds("capacity", capacity.into(), 0).map(Self)
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time to live (TTL), in whole milliseconds: 1 ms to 366 days.
///
/// ```
/// use std::time::Duration;
///
/// use lockhouse_core::Ttl;
///
/// assert_eq!(Ttl::from_ms(60_000)?, Ttl::new(Duration::from_secs(60))?);
/// assert_eq!(Ttl::new(Duration::from_secs(60))?.as_ms(), 60_000);
/// assert!(Ttl::from_ms(0).is_err());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl {
    ms: u64,
}

impl Ttl {
    /// Checks that `ms` is in bounds.
    ///
    /// # Errors
    /// [`Invalid`] on `ttl_ms` if it is not 1 ms to 366 days.
    pub fn from_ms(ms: impl Into<i128>) -> Result<Self, Invalid> {
        let ms = ms.into();
        let most = MAX_TTL.as_millis();
        u64::try_from(ms)
            .ok()
            .filter(|ms| (1..=most).contains(&u128::from(*ms)))
            .map(|ms| Self { ms })
            .ok_or_else(|| {
                Invalid::new(
                    "ttl_ms",
                    format!("is {ms}, it goes from 1 to {most} (366 days)"),
                )
            })
    }

    /// Checks that `ttl` is in bounds. A fraction of a millisecond is rounded up, except below 1
    /// ms.
    ///
    /// # Errors
    /// [`Invalid`] on `ttl_ms` if it is not 1 ms to 366 days.
    pub fn new(ttl: Duration) -> Result<Self, Invalid> {
        if !ttl.is_zero() && ttl < MIN_TTL {
            let problem = format!("is {ttl:?}, less than a millisecond; give at least 1 ms");
            return Err(Invalid::new("ttl_ms", problem));
        }
        let ms = ttl.as_nanos().div_ceil(1_000_000);
        Self::from_ms(i128::try_from(ms).unwrap_or(i128::MAX))
    }

    /// The TTL in milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.ms
    }

    /// The TTL as a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

fn in_bounds(field: &'static str, number: i128, least: u32) -> Result<u32, Invalid> {
    u32::try_from(number)
        .ok()
        .filter(|number| (least..=MAX_COUNT).contains(number))
        .ok_or_else(|| {
            Invalid::new(
                field,
                format!("is {number}, it goes from {least} to {MAX_COUNT}"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_from_1_and_capacities_from_0() {
        assert!(Count::new(0).is_err());
        assert!(Capacity::new(0).is_ok());
        assert!(Count::new(i32::MAX).is_ok());
        assert!(Count::new(1_i64 << 31).is_err());
        let refused = Capacity::new(-1).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "capacity is -1, it goes from 0 to 2147483647"
        );
    }

    #[test]
    fn a_ttl_goes_from_1_ms_to_366_days_and_rounds_up() {
        assert!(Ttl::from_ms(0).is_err());
        assert!(Ttl::new(MAX_TTL).is_ok());
        assert!(Ttl::new(MAX_TTL + Duration::from_millis(1)).is_err());
        assert_eq!(Ttl::new(MIN_TTL).unwrap().as_ms(), 1);
        assert_eq!(Ttl::new(Duration::from_micros(1001)).unwrap().as_ms(), 2);
        let told = Ttl::new(Duration::from_nanos(1)).unwrap_err().to_string();
        assert!(
            told.contains("ttl_ms is 1ns, less than a millisecond"),
            "{told}"
        );
        assert!(Ttl::new(Duration::ZERO).is_err());
        assert!(Ttl::new(Duration::MAX).is_err());
    }
}
