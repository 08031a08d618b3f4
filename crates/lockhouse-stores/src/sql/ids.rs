//! Ids of requests, chosen here rather than by the server.
//!
//! The rows of a request's permits name the request's id, and are written in the same packet as the
//! request, before the server could tell an id that it chose. The server's choice cannot be
//! predicted either: on a cluster the distance between AUTO_INCREMENT ids changes when nodes come
//! and go.
//!
//! An id is 52 bits of time, in microseconds since 2020, and 12 bits drawn by this process at
//! random: new rows go to the end of the table, and two processes rarely choose the same. When
//! they do, the primary key refuses the second with a duplicate. Then that process draws again and
//! the batch is tried again. Nothing depends on the order of ids.

use std::sync::{Mutex, PoisonError};

use lockhouse_core::Timestamp;

/// 2020-01-01T00:00:00Z, in microseconds since 1970.
const EPOCH: i64 = 1_577_836_800_000_000;

const DRAWN_BITS: u32 = 12;

/// Chooses ids.
#[derive(Debug)]
pub(crate) struct Ids(Mutex<LastIds>);

#[derive(Clone, Copy, Debug)]
struct LastIds {
    drawn: u64,
    next_time: u64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LastIds {
            drawn: draw(),
            next_time: 0,
        }))
    }

    /// `count` ids that this process has not chosen before. `now` is the server's clock. If it goes
    /// back, the ids do not.
    pub(crate) fn take(&self, count: usize, now: Timestamp) -> impl Iterator<Item = u64> + use<> {
        let since_epoch = u64::try_from(now.as_microsecond() - EPOCH).unwrap_or(0);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = since_epoch.max(state.next_time);
        let next = first + count as u64;
        state.next_time = next;
        let drawn = state.drawn;
        (first..next).map(move |time| (time << DRAWN_BITS) | drawn)
    }

    /// Draws again, after an id turned out to be taken.
    pub(crate) fn redraw(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.drawn = draw();
    }
}

fn draw() -> u64 {
    fastrand::u64(..1 << DRAWN_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_chosen_twice_even_when_the_clock_goes_back() {
        let ids = Ids::new();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let earlier = Timestamp::from_second(0).unwrap();
        let mut all: Vec<u64> = ids.take(600, now).collect();
        all.extend(ids.take(600, now));
        all.extend(ids.take(600, earlier));
        assert!(all.is_sorted());
        all.dedup();
        assert_eq!(all.len(), 1800);
    }

    #[test]
    fn ids_last_until_2162() {
        let ids = Ids::new();
        let late = "2162-01-01T00:00:00Z".parse().unwrap();
        let early = "2161-12-31T23:59:59Z".parse().unwrap();
        assert!(ids.take(1, early).max() < ids.take(1, late).max());
    }
}
