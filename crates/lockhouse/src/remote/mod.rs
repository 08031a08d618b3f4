//! Semaphores behind a server: each call goes over HTTP to a `lockhouse serve`.
//!
//! Every command is safe to repeat. So a call is [retried](exchange) for up to 10 s after a failed
//! connection, a lost answer or a "try again". A long wait for room is [split into calls](calls) of
//! at most 20 s, since proxies cut idle calls.

mod address;
mod calls;
pub(crate) mod exchange;
mod templates;
mod tls;
mod tokens;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{self, Cursor, Held, Holders, Kind, Page, Waiter};
use lockhouse_core::{
    Ask, CapacityChange, Cause, Code, Command, Definition, ExternalId, NamePrefix, Outcome, Owner,
    Reply, Request, SemaphoreName, Ttl,
};
use reqwest::StatusCode;
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};
use tokio::time::Instant;

use crate::again::as_asked_before;
use crate::{Error, Heard, SemaphoreStatus};
pub(crate) use exchange::Remote;
use exchange::{CallOutcome, PATIENCE, Success};
use lockhouse_wire as wire;

impl Remote {
    /// At most one page of holders, and the cursor of the next page if there is one.
    async fn part_of_holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        if let Holders {
            on: Some(name),
            owner: None,
        } = of
        {
            let url = self.address.semaphore(name, &["holders"])?;
            let answer = self.get(self.address.page(url, page)).await?;
            let wire::Holders { holders, next } = self.json(&answer)?;
            return self.held(holders, next);
        }
        let mut url = self.address.page(self.address.requests(), page);
        let filters = [
            ("owner", of.owner.as_ref().map(Owner::as_str)),
            ("semaphore", of.on.as_ref().map(SemaphoreName::as_str)),
        ];
        for (filter, value) in filters {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(filter, value);
            }
        }
        let answer = self.get(url).await?;
        let wire::Requests { requests, next } = self.json(&answer)?;
        self.held(requests, next)
    }

    fn held(&self, requests: Vec<wire::Request>, next: Option<String>) -> Result<Held, Error> {
        let next = next.as_deref().map(wire::key).transpose();
        Ok(Held {
            requests: self.made_all(requests)?,
            next: next.map_err(|invalid| self.nonsense(&invalid))?,
        })
    }

    async fn acquire_until(&self, ask: &Ask, until: Instant) -> Result<CallOutcome, Error> {
        let url = self.address.request(&ask.external_id, &[])?;
        let asked = self.ask(until + PATIENCE, || {
            let wait = until.saturating_duration_since(Instant::now());
            let body = wire::Acquire::of(ask, wait);
            self.client().put(url.clone()).json(&body)
        });
        Ok(asked.await)
    }

    fn granted(&self, answer: &Success) -> Result<Reply, Error> {
        Ok(Reply::Granted {
            now: answer.status == StatusCode::CREATED,
            request: self.read::<wire::Request, _>(answer)?,
            // The server has checked that enough time is left.
            lasts: None,
        })
    }

    async fn delete(&self, name: &SemaphoreName) -> Result<CallOutcome, Error> {
        let url = self.address.semaphore(name, &[])?;
        let build = || self.client().delete(url.clone());
        Ok(self.ask(Instant::now() + PATIENCE, build).await)
    }

    async fn renew(&self, external_id: &ExternalId, ttl: Option<Ttl>) -> Result<Reply, Error> {
        let url = self.address.request(external_id, &["renew"])?;
        let body = wire::Renew {
            ttl_ms: ttl.map(|ttl| ttl.as_ms().cast_signed()),
        };
        let build = || self.client().post(url.clone()).json(&body);
        let answer = self.ask(Instant::now() + PATIENCE, build).await.result?;
        Ok(Reply::Renewed(self.read::<wire::Request, _>(&answer)?))
    }

    async fn end(&self, external_id: &ExternalId, cause: &Cause) -> Result<CallOutcome, Error> {
        let mut url = self.address.request(external_id, &[])?;
        match cause {
            Cause::Released { .. } => {}
            Cause::Forced { .. } => {
                url.query_pairs_mut().append_pair("force", "true");
            }
            other => {
                let text = format!("no server can be asked to end a request as {other:?}");
                return Err(Error::Internal(text));
            }
        }
        if let Some(by) = cause.by() {
            url.query_pairs_mut().append_pair("by", by.as_str());
        }
        let build = || self.client().delete(url.clone());
        Ok(self.ask(Instant::now() + PATIENCE, build).await)
    }

    async fn heartbeat(&self, owner: &Owner, ttl: Ttl, must_exist: bool) -> Result<Reply, Error> {
        let url = self.address.owner(owner)?;
        let body = wire::Heartbeat {
            ttl_ms: ttl.as_ms().cast_signed(),
            must_exist,
        };
        let build = || self.client().put(url.clone()).json(&body);
        let answer = self.ask(Instant::now() + PATIENCE, build).await.result?;
        let Heard { session, began } = self.read::<wire::OwnerSession, _>(&answer)?;
        Ok(Reply::Heard { session, began })
    }

    /// `Ok` for any answer of the server, also a refusal.
    fn ended(&self, asked: CallOutcome, command: &Command) -> Result<Reply, Error> {
        let asked_before = asked.asked_before;
        let outcome = match asked.result {
            Ok(answer) => Ok(self.end_reply(&answer, command)?),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(error) => return Err(error),
        };
        Ok(match asked_before {
            Some(ago) => as_asked_before(command, outcome, |found| may_be_since(found, ago))?,
            None => outcome?,
        })
    }

    fn end_reply(&self, answer: &Success, command: &Command) -> Result<Reply, Error> {
        if matches!(command, Command::Delete { .. }) {
            return Ok(Reply::Deleted);
        }
        let released: wire::Released = self.json(answer)?;
        Ok(Reply::Ended {
            now: released.released,
            decided_at: released.decided_at,
            request: self.made(released.request)?,
        })
    }

    async fn get(&self, url: reqwest::Url) -> Result<Success, Error> {
        let build = || self.client().get(url.clone());
        self.ask(Instant::now() + PATIENCE, build).await.result
    }
}

/// Whether an earlier try, whose answer was lost, may still be granted after this refusal: it may
/// wait at the server for room, a capacity or a semaphore.
fn may_be_granted_after(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Exhausted | Code::ExceedsCapacity | Code::UnknownSemaphore
    )
}

/// Whether a call that began `ago` may have done what is found done.
///
/// A request that ended before the call began was not ended by it. If another caller ended the
/// request in the same way after the call began, this cannot tell the two apart.
fn may_be_since(found: &Outcome, ago: Duration) -> bool {
    let Ok(Reply::Ended {
        request,
        decided_at,
        ..
    }) = found
    else {
        return true;
    };
    // Zero, if the clock was set back.
    let passed = |at| decided_at.duration_since(at).try_into();
    let passed: Option<Duration> = request.released_at().and_then(|at| passed(at).ok());
    passed.unwrap_or_default() <= ago
}

/// The calls of a [`Backend`](crate::backend::Backend).
impl Remote {
    pub(crate) async fn acquire(&self, ask: Ask, wait: Duration) -> Result<Reply, Error> {
        // A wait that is too long for the clock has no end.
        let until = Instant::now().checked_add(wait);
        let (ask, was_asked_before) = (&ask, &AtomicBool::new(false));
        let answer = calls::waiting(until, |until| async move {
            let asked = self.acquire_until(ask, until).await?;
            was_asked_before.fetch_or(asked.asked_before.is_some(), Relaxed);
            self.granted(&asked.result?)
        });
        match answer.await {
            Err(error) if was_asked_before.load(Relaxed) && may_be_granted_after(&error) => {
                let what = "an answer was lost; asking again was refused, but what was asked first may \
                            be granted yet";
                Err(store::Error::new(Kind::Unknown, what)
                    .caused_by(error)
                    .into())
            }
            answer => answer,
        }
    }

    pub(crate) async fn execute(&self, command: Command) -> Result<Reply, Error> {
        match &command {
            Command::Delete { name } => self.ended(self.delete(name).await?, &command),
            Command::Renew {
                external_id, ttl, ..
            } => self.renew(external_id, *ttl).await,
            Command::End { external_id, cause } => {
                self.ended(self.end(external_id, cause).await?, &command)
            }
            Command::Heartbeat {
                owner,
                ttl,
                must_exist,
            } => self.heartbeat(owner, *ttl, *must_exist).await,
            other => Err(Error::Internal(format!("no server can be asked {other:?}"))),
        }
    }

    pub(crate) async fn define(
        &self,
        definition: Definition,
    ) -> Result<(SemaphoreStatus, bool), Error> {
        let url = self.address.semaphore(&definition.name, &[])?;
        let body = wire::Define::from(&definition);
        let build = || {
            let mut request = self.client().put(url.clone()).json(&body);
            if definition.must_exist {
                request = request.header(IF_MATCH, "*");
            }
            if definition.if_missing {
                request = request.header(IF_NONE_MATCH, "*");
            }
            request
        };
        let answer = self.ask(Instant::now() + PATIENCE, build).await.result?;
        let status = self.read::<wire::Semaphore, _>(&answer)?;
        Ok((status, answer.status == StatusCode::CREATED))
    }

    /// If a goodbye is retried, the requests that the first try released are not counted.
    pub(crate) async fn goodbye(&self, owner: &Owner) -> Result<u64, Error> {
        let url = self.address.owner(owner)?;
        let build = || self.client().delete(url.clone());
        let answer = self.ask(Instant::now() + PATIENCE, build).await.result?;
        Ok(self.json::<wire::Goodbye>(&answer)?.released)
    }

    pub(crate) async fn semaphore(&self, name: &SemaphoreName) -> Result<SemaphoreStatus, Error> {
        let answer = self.get(self.address.semaphore(name, &[])?).await?;
        self.read::<wire::Semaphore, _>(&answer)
    }

    pub(crate) async fn semaphores(
        &self,
        prefix: Option<&NamePrefix>,
        page: &Page<SemaphoreName>,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        let mut url = self.address.page(self.address.semaphores(), page);
        if let Some(prefix) = prefix {
            url.query_pairs_mut().append_pair("prefix", prefix.as_str());
        }
        let answer = self.get(url).await?;
        self.made_all(self.json::<wire::Semaphores>(&answer)?.semaphores)
    }

    pub(crate) async fn request(&self, external_id: &ExternalId) -> Result<Request, Error> {
        let answer = self.get(self.address.request(external_id, &[])?).await?;
        self.read::<wire::Request, _>(&answer)
    }

    /// A server may return fewer rows than were asked for, and then says that there are more.
    pub(crate) async fn holders(&self, of: &Holders, page: &Page<Cursor>) -> Result<Held, Error> {
        let mut rest = page.clone();
        let mut held = Held::default();
        loop {
            let Held { requests, next } = self.part_of_holders(of, &rest).await?;
            let many = u32::try_from(requests.len()).unwrap_or(u32::MAX);
            rest.limit = rest.limit.saturating_sub(many);
            rest.after = next;
            held.requests.extend(requests);
            if next.is_none() || many == 0 || rest.limit == 0 {
                held.next = next;
                return Ok(held);
            }
        }
    }

    pub(crate) async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let mut url = self.address.semaphore(name, &["history"])?;
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string());
        let answer = self.get(url).await?;
        let changes = self.json::<wire::History>(&answer)?.changes;
        let changes = changes.into_iter().map(|change| change.of(name));
        changes
            .collect::<Result<_, _>>()
            .map_err(|invalid| self.nonsense(&invalid))
    }

    pub(crate) async fn waiting(&self, name: &SemaphoreName) -> Result<Vec<Waiter>, Error> {
        let answer = self
            .get(self.address.semaphore(name, &["waiting"])?)
            .await?;
        self.made_all(self.json::<wire::Waiting>(&answer)?.waiting)
    }

    pub(crate) async fn ready(&self) -> Result<(), Error> {
        self.get(self.address.readyz()).await.map(drop)
    }
}
