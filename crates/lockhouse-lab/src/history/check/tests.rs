//! Histories made by hand. The checker finds each violation, and accepts correct histories.

mod keys;
mod lives;
mod sessions;

use std::time::Duration;

use crate::history::rows::{PermitRow, Rows, SemaphoreRow};
use crate::history::{
    Answer, Asked, Call, Circumstances, Held, Move, Moved, Operation, Promise, Refused, check,
    check_under,
};

const SECOND: u64 = 1_000_000;
const HOUR: i64 = 3_600_000_000;

/// How far the store's clock is ahead of the machine's.
const AHEAD: i64 = 1_800_000_000_000_000;

/// How long a call takes.
const TAKES: u64 = 1_000;

/// A history in the making, and its rows. Calls take effect half-way.
#[derive(Clone, Default)]
struct Story {
    history: Vec<Operation>,
    rows: Rows,
    moved: Moved,
}

/// A story with a semaphore of one permit.
fn story() -> Story {
    let mut story = Story::default();
    story.rows.semaphores.push(SemaphoreRow {
        name: "s".into(),
        capacity: 1,
        in_use: 0,
        fence: 9,
        created_at: 0,
        is_deleted: false,
    });
    story.says(0, define(1), Answer::Done);
    story
}

impl Story {
    fn says(&mut self, begun: u64, call: Call, answer: Answer) -> &mut Operation {
        self.history.push(Operation {
            client: 1,
            call,
            begun,
            ended: begun + TAKES,
            answer,
        });
        self.history.last_mut().unwrap()
    }

    /// Adds a grant, with its row.
    fn holds(&mut self, begun: u64, asked: &Asked) {
        let fence = 1 + self.rows.permits.len() as i64;
        self.says(begun, Call::Acquire(asked.clone()), granted(fence));
        let at = stamp(begun + TAKES / 2);
        self.rows.permits.push(PermitRow {
            external_id: asked.id.clone(),
            semaphore: "s".into(),
            count: 1,
            fence,
            slots: None,
            owner: asked.owner.clone(),
            state: "ACQUIRED".into(),
            end_reason: None,
            granted_at: at,
            expires_at: asked.ttl_us.map(|ttl| at + ttl.cast_signed()),
            released_at: None,
        });
        self.rows.semaphores[0].in_use += 1;
    }

    /// Notes the end of the request in its row.
    fn is_over(&mut self, id: &str, reason: &str, at: i64) {
        let row = self.rows.permits.iter_mut().find(|r| r.external_id == id);
        let row = row.unwrap();
        if row.released_at.is_none() {
            self.rows.semaphores[0].in_use -= 1;
        }
        row.state = "RELEASED".into();
        row.end_reason = Some(reason.into());
        row.released_at = Some(at);
    }

    /// Adds a release by the holder.
    fn releases(&mut self, begun: u64, id: &str) {
        let answer = Answer::Ended {
            now: true,
            reason: "released".into(),
        };
        self.says(begun, Call::Release { id: id.into() }, answer);
        self.is_over(id, "released", stamp(begun + TAKES / 2));
    }

    fn beats(&mut self, begun: u64, ttl_us: u64, answer: Answer) {
        let owner = "ann".into();
        self.says(begun, Call::Heartbeat { owner, ttl_us }, answer);
    }

    fn says_goodbye(&mut self, begun: u64, answer: Answer) -> &mut Operation {
        let owner = "ann".into();
        self.says(begun, Call::Goodbye { owner }, answer)
    }

    /// The store's clock was set, for a moment before `at`.
    fn clock_is_set(&mut self, at: u64, off: i64) {
        self.moved.ahead = AHEAD;
        self.moved.until = 1_000 * SECOND;
        let (from, to) = (at - 1, at);
        self.moved.moves.push(Move { from, to, off });
    }

    fn found(&self) -> Vec<Promise> {
        if !self.moved.moves.is_empty() {
            return self.found_under(Circumstances {
                moved: self.moved.clone(),
                ..Circumstances::default()
            });
        }
        let found = check(&self.history, Some(&self.rows));
        found.iter().map(|violation| violation.promise).collect()
    }

    fn found_under(&self, circumstances: Circumstances) -> Vec<Promise> {
        let found = check_under(&circumstances, &self.history, &self.rows);
        found.iter().map(|violation| violation.promise).collect()
    }

    fn found_if_stale_after(&self, stale_after: Duration) -> Vec<Promise> {
        self.found_under(Circumstances {
            stale_after,
            ..Circumstances::default()
        })
    }
}

fn stamp(at: u64) -> i64 {
    AHEAD + at.cast_signed()
}

fn define(capacity: i64) -> Call {
    let semaphore = "s".into();
    Call::Define {
        semaphore,
        capacity,
    }
}

fn ask(id: &str) -> Asked {
    Asked {
        id: id.into(),
        permits: vec![("s".into(), 1)],
        owner: None,
        ttl_us: None,
        waits: false,
        priority: 0,
    }
}

fn ask_for(id: &str, ttl_us: u64) -> Asked {
    let ttl_us = Some(ttl_us);
    Asked { ttl_us, ..ask(id) }
}

fn anns(id: &str) -> Asked {
    let owner = Some("ann".into());
    Asked { owner, ..ask(id) }
}

fn granted(fence: i64) -> Answer {
    let held = Held {
        semaphore: "s".into(),
        count: 1,
        fence: Some(fence),
        slots: None,
    };
    let permits = vec![held];
    Answer::Granted { permits, now: true }
}

fn no_room() -> Answer {
    Answer::Refused(Refused::Exhausted(vec!["s".into()]))
}
