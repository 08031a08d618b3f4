//! A Lockhouse client whose calls are noted.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{
    Ask, Code, Count, Error, ExternalId, Lockhouse, Owner, Priority, SemaphoreName, Ttl,
};
use lockhouse::{Refusal, Released, Request};

use super::recorder::record;
use super::{Answer, Asked, Call, Held, NEVER, Notebook, Refused};

/// A client whose calls are noted.
#[derive(Clone, Debug)]
pub struct Recorded {
    lockhouse: Lockhouse,
    notes: Arc<dyn Notebook>,
    number: u32,
}

impl Recorded {
    /// Client `number` of the history that `notes` takes.
    pub fn new<N: Notebook + 'static>(lockhouse: Lockhouse, notes: &Arc<N>, number: u32) -> Self {
        Self {
            lockhouse,
            notes: Arc::<N>::clone(notes),
            number,
        }
    }

    /// The client itself, for calls that need not be noted.
    pub fn lockhouse(&self) -> &Lockhouse {
        &self.lockhouse
    }

    /// Asks for permits, and waits for room if the ask does, for at most `wait`.
    pub async fn acquire(&self, asked: Asked, wait: Duration) -> Answer {
        let call = Call::Acquire(asked.clone());
        let answer = acquire(&self.lockhouse, &asked, wait);
        record(&*self.notes, self.number, call, answer).await
    }

    /// The same, but the answer is lost.
    pub async fn acquire_and_lose_the_answer(&self, asked: Asked) -> Answer {
        let call = Call::Acquire(asked.clone());
        let lost = async {
            acquire(&self.lockhouse, &asked, Duration::ZERO).await;
            Answer::Unknown
        };
        record(&*self.notes, self.number, call, lost).await
    }

    /// Renews a request.
    pub async fn renew(&self, id: &str, ttl_us: Option<u64>) -> Answer {
        let id = id.to_owned();
        let call = Call::Renew {
            id: id.clone(),
            ttl_us,
        };
        let ttl = ttl_us.map(Duration::from_micros);
        let answer = async {
            let renewed = self.lockhouse.renew(&id, ttl).await;
            renewed.map_or_else(|error| refused(&error), |_| Answer::Renewed)
        };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Releases a request.
    pub async fn release(&self, id: &str) -> Answer {
        let call = Call::Release { id: id.to_owned() };
        let answer = async { ended(self.lockhouse.release(id).await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// The same, but the answer is lost.
    pub async fn release_and_lose_the_answer(&self, id: &str) -> Answer {
        let call = Call::Release { id: id.to_owned() };
        let lost = async {
            let _ = self.lockhouse.release(id).await;
            Answer::Unknown
        };
        record(&*self.notes, self.number, call, lost).await
    }

    /// Ends a request of any owner by force.
    pub async fn force(&self, id: &str) -> Answer {
        let call = Call::Force { id: id.to_owned() };
        let answer = async { ended(self.lockhouse.force_release(id, None).await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Creates or resizes a semaphore.
    pub async fn define(&self, semaphore: &str, capacity: u32) -> Answer {
        let call = Call::Define {
            semaphore: semaphore.to_owned(),
            capacity: capacity.into(),
        };
        let answer = async { done(self.lockhouse.define(semaphore, capacity).await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Creates or resizes a semaphore with slots.
    pub async fn define_with_slots(&self, semaphore: &str, capacity: u32) -> Answer {
        let call = Call::Define {
            semaphore: semaphore.to_owned(),
            capacity: capacity.into(),
        };
        let answer = async { done(self.lockhouse.define(semaphore, capacity).slots().await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Sets a template, whose semaphores are deleted when nobody has used them for `idle`.
    pub async fn template(&self, pattern: &str, capacity: u32, idle: Duration) -> Answer {
        let call = Call::Template {
            pattern: pattern.to_owned(),
            capacity: capacity.into(),
        };
        let template = self.lockhouse.template(pattern, capacity).idle(idle);
        let answer = async { done(template.await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Deletes a semaphore.
    pub async fn delete(&self, semaphore: &str) -> Answer {
        let call = Call::Delete {
            semaphore: semaphore.to_owned(),
        };
        let answer = async { done(self.lockhouse.delete(semaphore).await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Extends an owner's session.
    pub async fn heartbeat(&self, owner: &str, ttl: Duration) -> Answer {
        let call = Call::Heartbeat {
            owner: owner.to_owned(),
            ttl_us: u64::try_from(ttl.as_micros()).unwrap_or(NEVER),
        };
        let answer = async { done(self.lockhouse.heartbeat(owner, ttl).await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// Ends all that an owner holds.
    pub async fn goodbye(&self, owner: &str) -> Answer {
        let call = Call::Goodbye {
            owner: owner.to_owned(),
        };
        let answer = async { done(self.lockhouse.goodbye(owner).await) };
        record(&*self.notes, self.number, call, answer).await
    }

    /// The client makes no calls from now on.
    pub fn die(self) {
        let place = self.notes.begin(self.number, Call::Die);
        self.notes.end(place, &Answer::Done);
    }
}

/// Asks for permits, and returns the answer.
pub(crate) async fn acquire(lockhouse: &Lockhouse, asked: &Asked, wait: Duration) -> Answer {
    let ask = match ask(asked) {
        Ok(ask) => ask,
        Err(error) => return refused(&error),
    };
    match lockhouse.acquire(ask, wait).await {
        Ok((request, now)) => Answer::Granted {
            permits: held(&request),
            now,
        },
        Err(error) => refused(&error),
    }
}

/// The answer to a release.
pub(crate) fn ended(released: Result<Released, Error>) -> Answer {
    match released {
        Ok(Released { request, now, .. }) => Answer::Ended {
            now,
            reason: request.end_reason().map_or("none", |r| r.as_str()).into(),
        },
        Err(error) => refused(&error),
    }
}

fn done<T>(done: Result<T, Error>) -> Answer {
    done.map_or_else(|error| refused(&error), |_| Answer::Done)
}

fn ask(asked: &Asked) -> Result<Ask, Error> {
    let permits = asked.permits.iter();
    let permits = permits
        .map(|(name, count)| Ok((SemaphoreName::parse(name)?, Count::new(*count)?)))
        .collect::<Result<Vec<_>, lockhouse::Invalid>>()?;
    let mut ask = Ask::new(ExternalId::parse(&asked.id)?, permits)?;
    ask.owner = asked.owner.as_deref().map(Owner::parse).transpose()?;
    let ttl = asked.ttl_us.map(Duration::from_micros);
    ask.ttl = ttl.map(Ttl::new).transpose()?;
    ask.priority = Priority::new(asked.priority)?;
    Ok(ask)
}

fn held(request: &Request) -> Vec<Held> {
    let permits = request.permits.iter().map(|permit| Held {
        semaphore: permit.semaphore.to_string(),
        count: permit.count.value().into(),
        fence: i64::try_from(permit.fence).ok(),
        slots: permit.slots.as_ref().map(ToString::to_string),
    });
    permits.collect()
}

/// The answer that an error stands for.
pub(crate) fn refused(error: &Error) -> Answer {
    if error.maybe_applied() {
        return Answer::Unknown;
    }
    let names = |names: &[SemaphoreName]| names.iter().map(ToString::to_string).collect();
    Answer::Refused(match error {
        Error::Refused(Refusal::Exhausted(on) | Refusal::Closed(on) | Refusal::OthersFirst(on)) => {
            Refused::Exhausted(names(on))
        }
        Error::Refused(Refusal::RequestEnded { reason, .. }) => {
            Refused::Ended(reason.as_str().into())
        }
        other => match other.code() {
            Code::ExceedsCapacity => Refused::TooMuch,
            Code::UnknownSemaphore => Refused::UnknownSemaphore,
            Code::UnknownRequest => Refused::UnknownRequest,
            Code::IdempotencyConflict => Refused::Conflict,
            // The client cannot tell whether the call was done. This includes a deadlock that
            // persists after the engine's retries: no code stands for a deadlock, and since other
            // transactions can cause one, it is no violation. `Refused::Deadlock` is for
            // hand-written locks. The conformance suite checks that no order of names leads to a
            // deadlock.
            Code::StoreUnavailable => return Answer::Unknown,
            _ => Refused::Other(other.to_string()),
        },
    })
}
