//! Draws the plan of a run from its seed.

use fastrand::Rng;
use lockhouse::store::Kind;

use super::plan::{
    Acquire, Deed, Ending, Fault, Hold, NAMES, PLAIN, Plan, SetTemplate, Step, Then,
};

/// How many owners there are.
const OWNERS: usize = 2;

const HOUR_MS: i64 = 3_600_000;

/// Draws runs. A later step may repeat an earlier ask.
struct Draw {
    random: Rng,
    asked: Vec<Acquire>,
    is_quiet: bool,
    jumps: bool,
    /// Whether the clock jumps by an hour each time.
    by_hours: bool,
    /// Whether there is a template, and asks for its semaphores.
    has_keys: bool,
}

/// The run of `seed`.
pub(super) fn plan(seed: u64) -> Plan {
    let mut random = Rng::with_seed(seed);
    let is_quiet = random.u32(0..4) == 0;
    let jumps = !is_quiet && random.u32(0..4) == 0;
    let servers = random.usize(1..=3);
    let slow_ms = [0, 1, 3, 10][random.usize(0..if is_quiet { 3 } else { 4 })];
    let notifies = random.bool();
    let capacities = [0; PLAIN].map(|_| (random.u32(1..=4), random.u32(0..4) == 0));
    let has_keys = random.u32(0..3) > 0;
    let steps = random.usize(15..=40);
    // Whether steps come close together or far apart.
    let apart_ms = [5, 40, 200][random.usize(0..3)];
    let mut draw = Draw {
        random,
        asked: Vec::new(),
        is_quiet,
        jumps,
        by_hours: seed.is_multiple_of(2),
        has_keys,
    };
    let template = has_keys.then(|| SetTemplate {
        capacity: draw.random.u32(1..=2),
        ..draw.template()
    });
    let mut at_ms = 0;
    let steps = (0..steps).map(|number| {
        at_ms += draw.random.u64(0..=apart_ms);
        Step {
            number,
            at_ms,
            server: draw.random.usize(0..servers),
            deed: draw.deed(number),
        }
    });
    Plan {
        seed,
        servers,
        capacities,
        template,
        slow_ms,
        notifies,
        is_quiet,
        steps: steps.collect(),
    }
}

impl Draw {
    fn deed(&mut self, number: usize) -> Deed {
        if !self.is_quiet && self.random.u32(0..4) == 0 {
            return self.trouble();
        }
        match self.random.u32(0..100) {
            0..45 => Deed::Acquire(self.acquire(number)),
            45..56 => Deed::Hold(self.hold()),
            56..62 => Deed::Renew {
                id: self.some_id(),
                ttl_ms: self.random.bool().then(|| self.random.u64(50..2_000)),
            },
            62..70 => Deed::Release { id: self.some_id() },
            70..73 => Deed::Force { id: self.some_id() },
            73..80 => Deed::Define {
                name: self.name(),
                capacity: self.random.u32(0..=4),
                slots: (self.random.u32(0..4) == 0).then(|| self.random.bool()),
            },
            80..83 => Deed::Delete { name: self.name() },
            // If there is a template, some steps change it instead of sweeping.
            94..97 if self.has_keys => match self.random.u32(0..4) {
                0 => Deed::DeleteTemplate,
                _ => Deed::Template(self.template()),
            },
            83..91 => Deed::Heartbeat {
                owner: self.random.usize(0..OWNERS),
                ttl_ms: self.random.u64(100..2_000),
            },
            91..94 => Deed::Goodbye {
                owner: self.random.usize(0..OWNERS),
            },
            _ => Deed::Sweep,
        }
    }

    fn trouble(&mut self) -> Deed {
        match self.random.u32(0..20) {
            0 => Deed::Kill,
            1..3 => Deed::Cut {
                ms: self.random.u64(10..1_000),
                is_silent: self.random.bool(),
            },
            3 if self.jumps => Deed::Jump { ms: self.jump_ms() },
            7 => Deed::Stop {
                ms: self.random.u64(100..4_500),
            },
            4..7 => Deed::ReadFault(self.fault()),
            _ => Deed::Fault(self.fault()),
        }
    }

    fn jump_ms(&mut self) -> i64 {
        let ms = self.random.i64(-1_500..1_500);
        match self.by_hours {
            true if ms < 0 => -HOUR_MS,
            true => HOUR_MS,
            false => ms,
        }
    }

    fn fault(&mut self) -> Fault {
        match self.random.u32(0..12) {
            0 => Fault::Before(Kind::Conflict),
            1 => Fault::Before(Kind::Unavailable),
            2 => Fault::Before(Kind::Crowded),
            3 => Fault::Before(Kind::Rejected),
            4..6 => Fault::ReplyLost,
            6 => Fault::CommitLost,
            7..9 => Fault::AppliedLate {
                ms: self.random.u64(1..400),
            },
            9 => Fault::Stuck {
                ms: [500, 4_000, 9_900][self.random.usize(0..3)],
                is_applied: self.random.bool(),
            },
            _ => Fault::Slow {
                ms: self.random.u64(20..1_500),
            },
        }
    }

    fn acquire(&mut self, number: usize) -> Acquire {
        // One in five repeats an earlier ask, and one in five of these is another ask under its id.
        if !self.asked.is_empty() && self.random.u32(0..5) == 0 {
            let mut again = self.random.choice(&self.asked).expect("not empty").clone();
            if self.random.u32(0..5) == 0 {
                again.permits = self.permits();
            }
            again.wait_ms = self.wait_ms();
            again.then = self.then();
            again.gives_up_ms = self.gives_up_ms();
            return again;
        }
        let acquire = Acquire {
            id: format!("r{number}"),
            permits: self.permits(),
            owner: (self.random.u32(0..3) == 0).then(|| self.random.usize(0..OWNERS)),
            ttl_ms: (self.random.u32(0..8) > 0).then(|| self.ttl_ms()),
            wait_ms: self.wait_ms(),
            priority: [0, 0, 0, 1, -1][self.random.usize(0..5)],
            gives_up_ms: self.gives_up_ms(),
            insists: self.random.u32(0..3),
            then: self.then(),
        };
        self.asked.push(acquire.clone());
        acquire
    }

    fn hold(&mut self) -> Hold {
        Hold {
            permits: self.permits(),
            ttl_ms: self.ttl_ms().max(100),
            wait_ms: self.wait_ms(),
            gives_up_ms: self.gives_up_ms(),
            for_ms: self.random.u64(0..3_000),
            ends: [Ending::Release, Ending::Drop, Ending::Forget][self.random.usize(0..3)],
        }
    }

    fn then(&mut self) -> Then {
        match self.random.u32(0..5) {
            0 => Then::Dies,
            1 => Then::Renews {
                every_ms: self.random.u64(20..400),
                times: self.random.u32(1..5),
            },
            _ => Then::Releases {
                after_ms: self.random.u64(0..400),
            },
        }
    }

    /// Some of the semaphores. If there is a template, half of the asks are for one or both of its semaphores, and seldom for
    /// more than one other.
    fn permits(&mut self) -> Vec<(usize, u32)> {
        let mut names = [0, 1, 2];
        self.random.shuffle(&mut names);
        let mut keys = [PLAIN, PLAIN + 1];
        self.random.shuffle(&mut keys);
        let (some, some_keys) = match self.has_keys && self.random.bool() {
            false => ([1, 1, 2, 3][self.random.usize(0..4)], 0),
            true => (
                [0, 1, 1, 1, 2][self.random.usize(0..5)],
                [1, 1, 1, 2][self.random.usize(0..4)],
            ),
        };
        let names = names.into_iter().take(some);
        let plain = names.map(|name| (name, self.random.u32(1..=3)));
        let mut permits: Vec<_> = plain.collect();
        for key in keys.into_iter().take(some_keys) {
            let count = [1, 1, 1, 2][self.random.usize(0..4)];
            permits.push((key, count));
        }
        permits
    }

    fn name(&mut self) -> usize {
        let some = if self.has_keys { NAMES.len() } else { PLAIN };
        self.random.usize(0..some)
    }

    fn template(&mut self) -> SetTemplate {
        SetTemplate {
            capacity: [0, 1, 1, 2, 2, 3][self.random.usize(0..6)],
            idle_ms: [1, 200, 2_000][self.random.usize(0..3)],
        }
    }

    fn ttl_ms(&mut self) -> u64 {
        let most = [60, 400, 2_000][self.random.usize(0..3)];
        self.random.u64(5..=most)
    }

    fn wait_ms(&mut self) -> u64 {
        match self.random.u32(0..6) {
            0 => 0,
            1..3 => self.random.u64(1..200),
            _ => self.random.u64(200..3_000),
        }
    }

    fn gives_up_ms(&mut self) -> Option<u64> {
        (self.random.u32(0..6) == 0).then(|| self.random.u64(0..500))
    }

    fn some_id(&mut self) -> String {
        let asked = self.random.choice(&self.asked);
        asked.map_or_else(|| "nobody".to_owned(), |asked| asked.id.clone())
    }
}
