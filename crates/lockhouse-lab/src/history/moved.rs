//! Clocks that were moved while a history was made.

use super::rows::Rows;

/// How much [`Moved::ahead`] may be off.
const ABOUT_US: i64 = 5_000_000;

/// How the store's clock was moved. By default it never was.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// How far the store's clock is ahead of the machine's monotonic one when it is not off, in
    /// microseconds, give or take some seconds.
    pub ahead: i64,
    /// When the first of the rows can have been written, by the monotonic clock.
    pub since: u64,
    /// When the rows were read, by the monotonic clock.
    pub until: u64,
    /// The moves in the order of time. Offsets that differ must differ by hours.
    pub moves: Vec<Move>,
}

/// The store's clock was set, at some moment from `from` to `to` of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The earliest moment at which the clock was set.
    pub from: u64,
    /// The latest moment at which the clock was set.
    pub to: u64,
    /// How far the clock is off from then on, in microseconds.
    pub off: i64,
}

impl Moved {
    /// Whether the clock was moved at some moment from `from` to `to`.
    pub fn between(&self, from: u64, to: u64) -> bool {
        self.moves
            .iter()
            .any(|moved| moved.from <= to && from <= moved.to)
    }

    /// The latest moment, by the monotonic clock, at which a clock that was never moved says `at`.
    pub(crate) fn latest(&self, at: i64) -> u64 {
        let moment = at.saturating_sub(self.ahead).saturating_add(ABOUT_US);
        u64::try_from(moment).unwrap_or_default()
    }

    /// The rows with all times as a clock that was never moved would have had them.
    pub fn set_right(&self, rows: &Rows) -> Rows {
        let mut rows = rows.clone();
        if self.moves.is_empty() {
            return rows;
        }
        for row in &mut rows.permits {
            row.granted_at = self.truly(row.granted_at);
            row.expires_at = row.expires_at.map(|at| self.truly(at));
            row.released_at = row.released_at.map(|at| self.truly(at));
        }
        for row in &mut rows.semaphores {
            row.created_at = self.truly(row.created_at);
        }
        for change in &mut rows.capacity_changes {
            change.changed_at = self.truly(change.changed_at);
        }
        // The sort is stable: changes of one microsecond stay in their order.
        rows.capacity_changes
            .sort_by_key(|change| change.changed_at);
        rows
    }

    /// The true time when the clock showed `at`. The offset is that of the stretch of time that
    /// contains this moment, or is next to it.
    fn truly(&self, at: i64) -> i64 {
        let ends = self.moves.iter().map(|moved| signed(moved.to));
        let ends = ends.chain([signed(self.until)]);
        let begins = self
            .moves
            .iter()
            .map(|moved| (signed(moved.from), moved.off));
        let begins = [(signed(self.since), 0)].into_iter().chain(begins);
        let stretches = begins.zip(ends);
        let beside = stretches.map(|((from, off), to)| {
            let moment = at - off - self.ahead;
            let beside = (from - moment).max(moment - to).max(0);
            (beside, off)
        });
        let nearest = beside.min_by_key(|(beside, _)| *beside);
        at - nearest.map_or(0, |(_, off)| off)
    }
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn times_are_set_right_by_the_stretch_that_they_are_of() {
        let (first, second) = (10_000_000, 20_000_000);
        let moved = Moved {
            ahead: 1_000,
            since: 1_000_000,
            until: 30_000_000,
            moves: vec![
                Move {
                    from: first,
                    to: first + 5,
                    off: 3 * HOUR,
                },
                Move {
                    from: second,
                    to: second + 5,
                    off: -2 * HOUR,
                },
            ],
        };
        // Moments before, between and after the moves, and expiries a minute after a grant.
        for (moment, off) in [
            (5_000_000, 0),
            (15_000_000, 3),
            (25_000_000, -2),
            (85_000_000, -2),
        ] {
            let truly = moment + 1_000;
            assert_eq!(moved.truly(truly + off * HOUR), truly, "{moment}");
        }
        assert_eq!(moved.truly(19_000_000 + 60_000_000 + 3 * HOUR), 79_000_000);
        // The clocks may be a little off each other, also around a move.
        let beside = first.cast_signed() - 700;
        assert_eq!(moved.truly(beside + 1_000 + 3 * HOUR), beside + 1_000);
        assert!(moved.between(0, first) && !moved.between(first + 6, second - 1));
    }
}
