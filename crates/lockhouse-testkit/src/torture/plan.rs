//! The plan of faults: which, when, where and for how long. The same seed gives the same plan.
//!
//! A plan is an endless sequence of rounds. First each fault comes alone, in a drawn order. After that every other round is a
//! mix of two or three. A full disk comes less often than other faults, since MySQL takes a minute to notice that there is
//! room again.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::faults::Fault;

/// The longest TTL that clients ask for. A process is stopped, and a clock is off, for longer than that.
pub const LONGEST_TTL_MS: u64 = 3_000;

const LEAST_CALM_MS: u64 = 300;

/// The least time without a fault before every third round, so that the order of waiters can be checked (P11).
const CALM_IN_LINE_MS: u64 = 4_500;

/// How long there is no fault before and after a fault that is kept apart.
const APART_MS: u64 = 6_000;

/// The point in the life of a COMMIT at which a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The COMMIT does not get to the database.
    Before,
    /// The COMMIT gets to the database, and nobody listens for the reply.
    Forwarded,
    /// The reply reaches the link, and gets no further.
    Replied,
}

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the caller.
    Asking,
    /// To the caller.
    Answering,
}

/// A fault, with its drawn parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The fault.
    pub fault: Fault,
    /// The target among the possible ones, by number modulo their count.
    pub whom: usize,
    /// The point in the COMMIT, for faults around a COMMIT.
    pub point: Point,
    /// The direction, for `OneWay`.
    pub direction: Direction,
    /// The hours by which a clock is set.
    pub hours: i64,
}

/// Faults at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// How long there is no fault before the round.
    pub calm_ms: u64,
    /// The faults.
    pub faults: Vec<Staged>,
    /// How long the faults last.
    pub lasts_ms: u64,
}

/// The rounds of a seed.
#[derive(Debug)]
pub struct Plan {
    random: fastrand::Rng,
    faults: Vec<Fault>,
    alone: VecDeque<Fault>,
    rounds: u64,
    calm_ms: u64,
    lasts_ms: Option<RangeInclusive<u64>>,
    apart: Option<Fault>,
    was_apart: bool,
}

impl Plan {
    /// A plan of `faults`, of which there is at least one.
    pub fn new(seed: u64, faults: &[Fault]) -> Self {
        assert!(!faults.is_empty(), "a plan of no faults");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut alone = faults.to_vec();
        random.shuffle(&mut alone);
        Self {
            random,
            faults: faults.to_vec(),
            alone: alone.into(),
            rounds: 0,
            calm_ms: 1_500,
            lasts_ms: None,
            apart: None,
            was_apart: false,
        }
    }

    /// `fault` comes alone, and long before and after all others.
    pub fn apart(mut self, fault: Fault) -> Self {
        self.apart = Some(fault);
        self
    }

    /// Before each round there is no fault for up to `calm`.
    pub fn calm_up_to(mut self, calm: Duration) -> Self {
        self.calm_ms = u64::try_from(calm.as_millis())
            .unwrap_or(u64::MAX)
            .max(LEAST_CALM_MS);
        self
    }

    /// Every fault lasts this long, and a long time without faults precedes each.
    pub fn on_a_cluster(mut self, lasts_ms: RangeInclusive<u64>) -> Self {
        self.lasts_ms = Some(lasts_ms);
        self
    }

    /// The rounds of a run of that length, if each heal takes half a second.
    pub fn rounds_within(self, minutes: f64) -> Vec<Round> {
        let mut left_ms = minutes * 60_000.0;
        let within = self.take_while(|round| {
            left_ms -= (round.calm_ms + round.lasts_ms + 500) as f64;
            left_ms >= 0.0
        });
        within.collect()
    }

    /// The next round.
    pub(super) fn draw(&mut self) -> Round {
        self.rounds += 1;
        let one = self.alone.pop_front();
        let faults = match one {
            Some(fault) => vec![fault],
            None if self.rounds.is_multiple_of(2) && self.faults.len() > 1 => self.mix(),
            None => self.some()[..1].to_vec(),
        };
        let takes_long = |fault: &Fault| {
            matches!(
                fault,
                Fault::StopClient
                    | Fault::StopServer
                    | Fault::StopDatabase
                    | Fault::ClockClient
                    | Fault::ClockServer
                    | Fault::ClockDatabase
            )
        };
        let lasts_ms = match self.lasts_ms.clone() {
            Some(lasts_ms) => lasts_ms,
            None if faults.iter().any(takes_long) => LONGEST_TTL_MS + 500..=LONGEST_TTL_MS + 2_000,
            None => 700..=4_000,
        };
        let lasts_ms = self.random.u64(lasts_ms);
        let is_apart = self.apart.is_some_and(|apart| faults.contains(&apart));
        let was_apart = mem::replace(&mut self.was_apart, is_apart);
        let least = if is_apart || was_apart { APART_MS } else { 0 };
        let calm_ms = least + self.random.u64(LEAST_CALM_MS..=self.calm_ms);
        let is_long = self.rounds % 3 == 1 || self.lasts_ms.is_some();
        Round {
            calm_ms: calm_ms.max(if is_long { CALM_IN_LINE_MS } else { 0 }),
            faults: faults.into_iter().map(|fault| self.stage(fault)).collect(),
            lasts_ms,
        }
    }

    /// `faults` come once more, each alone, before all mixes.
    pub(super) fn stage_again(&mut self, faults: &[Fault]) {
        self.alone.extend(faults);
    }

    /// All faults in a drawn order, usually without `DiskFull`, which comes less often.
    fn some(&mut self) -> Vec<Fault> {
        let mut some = self.faults.clone();
        self.random.shuffle(&mut some);
        if some.len() > 1 && self.random.u8(..4) > 0 {
            some.retain(|fault| *fault != Fault::DiskFull);
        }
        some
    }

    fn mix(&mut self) -> Vec<Fault> {
        let some = self.some();
        let many = self.random.usize(2..=3);
        let mut mix: Vec<Fault> = Vec::new();
        for fault in some {
            let are_apart = mix.iter().all(|other| !other.is_in_the_way_of(fault));
            if mix.len() < many && are_apart && Some(fault) != self.apart {
                mix.push(fault);
            }
        }
        mix
    }

    fn stage(&mut self, fault: Fault) -> Staged {
        let random = &mut self.random;
        let points = [Point::Before, Point::Forwarded, Point::Replied];
        let directions = [Direction::Asking, Direction::Answering];
        Staged {
            fault,
            whom: random.usize(..1_000),
            point: points[random.usize(..3)],
            direction: directions[random.usize(..2)],
            hours: random.i64(1..=20) * if random.bool() { 1 } else { -1 },
        }
    }
}

impl Iterator for Plan {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        Some(self.draw())
    }
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        match self.fault {
            fault if fault.is_at_commit() => write!(f, " {:?}", self.point)?,
            Fault::OneWay => write!(f, " {:?}", self.direction)?,
            Fault::ClockClient | Fault::ClockServer | Fault::ClockDatabase => {
                write!(f, " {:+}h", self.hours)?;
            }
            _ => {}
        }
        write!(f, " #{}", self.whom)
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(ToString::to_string).collect();
        let (calm, lasts) = (self.calm_ms, self.lasts_ms);
        write!(
            f,
            "{calm:>5} ms calm, {lasts:>5} ms of {}",
            faults.join(" + ")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::faults::ALL;
    use super::*;

    fn rounds(seed: u64) -> Vec<Round> {
        let all = ALL.map(|(fault, _)| fault);
        Plan::new(seed, &all).take(400).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_another() {
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
    }

    #[test]
    fn a_fault_set_apart_comes_alone_and_long_before_and_after_others() {
        let all = ALL.map(|(fault, _)| fault);
        let plan = Plan::new(3, &all).apart(Fault::ClockDatabase);
        let rounds: Vec<_> = plan.take(800).collect();
        let is_apart = |round: &Round| {
            let mut faults = round.faults.iter();
            faults.any(|staged| staged.fault == Fault::ClockDatabase)
        };
        assert!(rounds.iter().filter(|round| is_apart(round)).count() > 5);
        for pair in rounds.windows(2) {
            assert!(!is_apart(&pair[0]) || pair[0].faults.len() == 1);
            if is_apart(&pair[0]) || is_apart(&pair[1]) {
                assert!(pair[1].calm_ms >= APART_MS);
            }
        }
    }

    /// Without this time, the checker could not decide the order of any waiters.
    #[test]
    fn a_long_time_without_faults_precedes_every_third_round() {
        let plan = Plan::new(5, &[Fault::KillServer]).calm_up_to(Duration::ZERO);
        let calm: Vec<_> = plan.take(9).map(|round| round.calm_ms).collect();
        for (nth, calm_ms) in calm.iter().enumerate() {
            assert_eq!(*calm_ms >= CALM_IN_LINE_MS, nth % 3 == 0, "{calm:?}");
        }
    }

    #[test]
    fn every_fault_comes_alone_and_then_in_mixes() {
        let rounds = rounds(1);
        let alone = rounds[..ALL.len()].iter();
        let alone: BTreeSet<_> = alone.map(|round| round.faults[0].fault).collect();
        assert_eq!(alone.len(), ALL.len());
        let mixed = rounds.iter().filter(|round| round.faults.len() > 1);
        let mixed: BTreeSet<_> = mixed
            .flat_map(|r| r.faults.iter().map(|s| s.fault))
            .collect();
        assert_eq!(mixed.len(), ALL.len());
    }

    #[test]
    fn of_a_mix_none_undoes_another() {
        for round in rounds(2) {
            let faults: Vec<_> = round.faults.iter().map(|staged| staged.fault).collect();
            let of_links = faults.iter().filter(|fault| fault.is_of_a_link());
            assert!(of_links.count() <= 1, "{faults:?}");
            let of_database = faults.iter().filter(|fault| fault.is_of_the_database());
            assert!(of_database.count() <= 1, "{faults:?}");
            let no_commit_comes = faults.contains(&Fault::ReadOnly);
            let at_commit = faults.iter().any(|fault| fault.is_at_commit());
            assert!(!(no_commit_comes && at_commit), "{faults:?}");
        }
    }

    #[test]
    fn a_stopped_client_stays_stopped_beyond_the_longest_ttl() {
        let mut stops = 0;
        for round in rounds(3) {
            if round
                .faults
                .iter()
                .any(|staged| staged.fault == Fault::StopClient)
            {
                assert!(round.lasts_ms > LONGEST_TTL_MS);
                stops += 1;
            }
        }
        assert!(stops > 0);
    }
}
