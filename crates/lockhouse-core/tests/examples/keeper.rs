//! A store for examples: rows, and a clock that only the example moves.

use std::time::Duration;

use lockhouse_core::{
    Ask, Cause, Command, Decision, Definition, EndReason, Loaded, Outcome, Refusal, Reply, Request,
    SemaphoreRow, decide,
};

use crate::rows::Rows;
use crate::words::{at, capacity, count, id, name, owner, ttl};

pub(crate) struct Keeper {
    pub(crate) rows: Rows,
    now_ms: i64,
}

impl Keeper {
    /// A store with these semaphores and their capacities, at time 0.
    pub(crate) fn with(semaphores: &[(&str, u32)]) -> Self {
        let mut keeper = Self {
            rows: Rows::default(),
            now_ms: 0,
        };
        for (name, capacity) in semaphores {
            keeper.run(define(name, *capacity)).expect("defined");
        }
        keeper
    }

    pub(crate) fn wait_ms(&mut self, ms: i64) {
        self.now_ms += ms;
    }

    /// Finishes a request, as its holder does in its own transaction.
    pub(crate) fn finish(&mut self, text: &str) {
        self.rows.finish(at(self.now_ms), &id(text));
    }

    /// Decides `commands` as one batch and saves it.
    pub(crate) fn batch(&mut self, commands: &[Command]) -> Decision {
        let loaded = self.rows.load(at(self.now_ms), commands);
        let decision = decide(loaded, commands);
        let saved = self.rows.save(&decision.changes);
        saved.expect("no id is granted twice");
        decision
    }

    /// The rows that a store loads for `command` now.
    pub(crate) fn load(&mut self, command: &Command) -> Loaded {
        let commands = std::slice::from_ref(command);
        self.rows.load(at(self.now_ms), commands)
    }

    /// The rows that a store loads for `commands` now.
    pub(crate) fn load_batch(&mut self, commands: &[Command]) -> Loaded {
        self.rows.load(at(self.now_ms), commands)
    }

    pub(crate) fn run(&mut self, command: Command) -> Outcome {
        self.batch(&[command]).outcomes.remove(0)
    }

    /// The request of `ask`, and whether it was granted now.
    pub(crate) fn acquire(&mut self, ask: &Ask) -> Result<(Request, bool), Refusal> {
        match self.run(Command::acquire(ask.clone()))? {
            Reply::Granted { request, now, .. } => Ok((request, now)),
            other => panic!("{ask:?} was answered {other:?}"),
        }
    }

    /// The request that `ask` is granted now.
    pub(crate) fn grant(&mut self, ask: &Ask) -> Request {
        let (request, now) = self.acquire(ask).expect("there is room");
        assert!(now, "granted before: {request:?}");
        request
    }

    /// The request after the command, and whether the command ended it.
    pub(crate) fn end(&mut self, id: &str, cause: Cause) -> Result<(Request, bool), Refusal> {
        match self.run(end(id, cause))? {
            Reply::Ended { request, now, .. } => Ok((request, now)),
            other => panic!("the end of {id} was answered {other:?}"),
        }
    }

    pub(crate) fn semaphore(&self, text: &str) -> &SemaphoreRow {
        &self.rows.semaphores[&name(text)]
    }

    pub(crate) fn in_use(&self, text: &str) -> u32 {
        self.semaphore(text).in_use
    }

    pub(crate) fn request(&self, text: &str) -> Option<&Request> {
        self.rows.requests.get(&id(text))
    }

    pub(crate) fn is_live(&self, text: &str) -> bool {
        self.request(text).is_some_and(Request::is_live)
    }
}

pub(crate) fn define(text: &str, number: u32) -> Command {
    Command::Define(Definition::new(name(text), capacity(number)))
}

pub(crate) fn resize(text: &str, number: u32) -> Command {
    Command::Define(Definition {
        must_exist: true,
        ..Definition::new(name(text), capacity(number))
    })
}

pub(crate) fn delete(text: &str) -> Command {
    Command::Delete { name: name(text) }
}

pub(crate) fn renew(text: &str, ms: Option<u64>) -> Command {
    Command::Renew {
        external_id: id(text),
        ttl: ms.map(ttl),
        by: None,
    }
}

/// Resizes to `number` if the capacity is `expected`.
pub(crate) fn resize_from(text: &str, expected: u32, number: u32) -> Command {
    Command::Define(Definition {
        expected: Some(capacity(expected)),
        ..Definition::new(name(text), capacity(number))
    })
}

pub(crate) fn end(text: &str, cause: Cause) -> Command {
    Command::End {
        external_id: id(text),
        cause,
    }
}

pub(crate) fn heartbeat(text: &str, ms: u64) -> Command {
    Command::Heartbeat {
        owner: owner(text),
        ttl: ttl(ms),
        must_exist: false,
    }
}

/// A heartbeat that only continues a session.
pub(crate) fn beat_on(text: &str, ms: u64) -> Command {
    Command::Heartbeat {
        owner: owner(text),
        ttl: ttl(ms),
        must_exist: true,
    }
}

pub(crate) fn goodbye(text: &str) -> Command {
    Command::Goodbye { owner: owner(text) }
}

pub(crate) fn silent(text: &str) -> Cause {
    Cause::OwnerSilent { owner: owner(text) }
}

pub(crate) fn gone(text: &str) -> Cause {
    Cause::OwnerGone { owner: owner(text) }
}

pub(crate) fn stale(ms: u64) -> Cause {
    Cause::Stale {
        age: Duration::from_millis(ms),
        owner: None,
    }
}

pub(crate) fn stale_of(text: &str, ms: u64) -> Cause {
    Cause::Stale {
        age: Duration::from_millis(ms),
        owner: Some(owner(text)),
    }
}

pub(crate) fn forced(by: Option<&str>) -> Cause {
    Cause::Forced { by: by.map(owner) }
}

/// A cause of every kind, for a request of `x`.
pub(crate) fn every_cause() -> [Cause; 6] {
    [
        Cause::Released { by: None },
        Cause::Expired,
        silent("x"),
        gone("x"),
        stale_of("x", 0),
        forced(None),
    ]
}

/// The causes that end a request of `x` without a TTL at once, in any state.
pub(crate) fn causes_that_hold() -> [Cause; 4] {
    [
        Cause::Released { by: None },
        gone("x"),
        stale_of("x", 0),
        forced(None),
    ]
}

pub(crate) fn ask(text: &str, permits: &[(&str, u32)]) -> Ask {
    let permits = permits
        .iter()
        .map(|(on, number)| (name(on), count(*number)));
    Ask::new(id(text), permits).expect("each semaphore is named once")
}

pub(crate) fn for_ms(ms: u64, mut ask: Ask) -> Ask {
    ask.ttl = Some(ttl(ms));
    ask
}

pub(crate) fn owned_by(text: &str, mut ask: Ask) -> Ask {
    ask.owner = Some(owner(text));
    ask
}

pub(crate) fn unknown_semaphore(names: &[&str]) -> Refusal {
    Refusal::UnknownSemaphore(names.iter().map(|text| name(text)).collect())
}

pub(crate) fn exhausted(names: &[&str]) -> Refusal {
    Refusal::Exhausted(names.iter().map(|text| name(text)).collect())
}

pub(crate) fn request_ended(text: &str, reason: EndReason) -> Refusal {
    Refusal::RequestEnded {
        external_id: id(text),
        reason,
    }
}
