//! A store for stories: rows and a clock that only the story moves.

use lockhouse_core::{
    Ask, Command, Decision, EndReason, Outcome, Refusal, Reply, Request, Semaphore, decide,
};

use crate::rows::Rows;
use crate::words::{at, capacity, count, id, name, owner, ttl};

pub(crate) struct Keeper {
    rows: Rows,
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

    /// Decides `commands` as one batch and saves it.
    pub(crate) fn batch(&mut self, commands: &[Command]) -> Decision {
        let loaded = self.rows.load(at(self.now_ms), commands);
        let decision = decide(loaded, commands);
        let saved = self.rows.save(&decision.changes);
        saved.expect("no id is granted twice");
        decision
    }

    pub(crate) fn run(&mut self, command: Command) -> Outcome {
        self.batch(&[command]).outcomes.remove(0)
    }

    /// What `ask` is granted, and whether now.
    pub(crate) fn acquire(&mut self, ask: &Ask) -> Result<(Request, bool), Refusal> {
        match self.run(Command::Acquire(ask.clone()))? {
            Reply::Granted { request, now } => Ok((request, now)),
            other => panic!("{ask:?} was answered {other:?}"),
        }
    }

    /// What `ask` is granted now.
    pub(crate) fn grant(&mut self, ask: &Ask) -> Request {
        let (request, now) = self.acquire(ask).expect("there is room");
        assert!(now, "granted before: {request:?}");
        request
    }

    /// Whether the request ended just now, and how it is then.
    pub(crate) fn end(&mut self, id: &str, reason: EndReason) -> Result<(Request, bool), Refusal> {
        match self.run(end(id, reason))? {
            Reply::Ended { request, now } => Ok((request, now)),
            other => panic!("the end of {id} was answered {other:?}"),
        }
    }

    pub(crate) fn semaphore(&self, text: &str) -> &Semaphore {
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
    Command::Define {
        name: name(text),
        capacity: capacity(number),
        must_exist: false,
        changed_by: None,
        note: None,
    }
}

pub(crate) fn resize(text: &str, number: u32) -> Command {
    Command::Define {
        name: name(text),
        capacity: capacity(number),
        must_exist: true,
        changed_by: None,
        note: None,
    }
}

pub(crate) fn delete(text: &str) -> Command {
    Command::Delete { name: name(text) }
}

pub(crate) fn renew(text: &str, ms: Option<u64>) -> Command {
    Command::Renew {
        external_id: id(text),
        ttl: ms.map(ttl),
    }
}

pub(crate) fn end(text: &str, reason: EndReason) -> Command {
    Command::End {
        external_id: id(text),
        reason,
    }
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
