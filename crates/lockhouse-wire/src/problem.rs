//! Errors over HTTP: problem documents (RFC 9457) with a stable `code`, and the members from which
//! the client restores the same [`Refusal`].

use lockhouse_core::store::{self, Kind};
use lockhouse_core::{
    Capacity, Code, Count, EndReason, Error, ExternalId, Invalid, Owner, Refusal, SemaphoreName,
    TokenName,
};
use serde::{Deserialize, Serialize};

/// A problem document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The kind of the problem as a URI. It has the same information as `code`.
    #[serde(rename = "type")]
    pub uri: String,
    /// The kind of problem in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A description of this error, and what to do.
    pub detail: String,
    /// The stable word to branch on.
    pub code: String,
    /// `invalid_request`: the field that is malformed or out of bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The request that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// `idempotency_conflict`: the access token that has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `session_ended`: the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// `request_ended`: why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// The semaphores that do not exist, lack room, have too few permits, have another capacity, or
    /// are held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub semaphores: Vec<String>,
    /// `exceeds_capacity`: how many permits were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u32>,
    /// `exceeds_capacity`, `capacity_changed`: how many there are. `exhausted`: 0 if the semaphores
    /// are closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// `capacity_changed`: how many there were expected to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_capacity: Option<u32>,
    /// `capacity_changed`: whether the semaphore has slots, where that is what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<bool>,
    /// `semaphore_in_use`: how many permits are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<u32>,
    /// `store_unavailable`: the call may have been done. The same call again tells.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub maybe_applied: bool,
}

impl Problem {
    /// A problem of the kind `code`, under the status that goes with it.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let (status, title) = status_and_title(code);
        Self {
            uri: format!("urn:lockhouse:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_string(),
            ..Self::default()
        }
    }

    /// A body, a query or a path that cannot be parsed: 400. A value out of bounds is 422.
    pub fn malformed(invalid: &Invalid) -> Self {
        Self {
            status: 400,
            ..Self::invalid(invalid)
        }
    }

    /// After how many seconds the same call may succeed.
    pub fn retry_after_s(&self) -> Option<u32> {
        match Code::parse(&self.code)? {
            Code::Exhausted | Code::StoreUnavailable | Code::Overloaded => Some(1),
            _ => None,
        }
    }

    fn invalid(invalid: &Invalid) -> Self {
        Self {
            field: Some(invalid.field().to_owned()),
            ..Self::new(Code::InvalidRequest, invalid.to_string())
        }
    }

    fn refused(refusal: &Refusal) -> Self {
        let text = |id: &ExternalId| Some(id.to_string());
        let names = |names: &[SemaphoreName]| names.iter().map(SemaphoreName::to_string).collect();
        let problem = Self::new(refusal.code(), refusal.to_string());
        match refusal {
            Refusal::UnknownSemaphore(semaphores)
            | Refusal::Exhausted(semaphores)
            | Refusal::OthersFirst(semaphores) => Self {
                semaphores: names(semaphores),
                ..problem
            },
            Refusal::Closed(semaphores) => Self {
                semaphores: names(semaphores),
                capacity: Some(Capacity::CLOSED.value()),
                ..problem
            },
            Refusal::TokenExists(name) => Self {
                name: Some(name.to_string()),
                ..problem
            },
            Refusal::UnknownRequest(id)
            | Refusal::OfAnotherToken(id)
            | Refusal::IdempotencyConflict(id) => Self {
                external_id: text(id),
                ..problem
            },
            Refusal::ExceedsCapacity {
                semaphore,
                asked,
                capacity,
            } => Self {
                semaphores: vec![semaphore.to_string()],
                asked: Some(asked.value()),
                capacity: Some(capacity.value()),
                ..problem
            },
            Refusal::RequestEnded {
                external_id,
                reason,
            } => Self {
                external_id: text(external_id),
                end_reason: Some(reason.to_string()),
                ..problem
            },
            Refusal::SessionEnded(owner) => Self {
                owner: Some(owner.to_string()),
                ..problem
            },
            Refusal::CapacityChanged {
                name,
                expected,
                capacity,
            } => Self {
                semaphores: vec![name.to_string()],
                expected_capacity: Some(expected.value()),
                capacity: Some(capacity.value()),
                ..problem
            },
            Refusal::SlotsDiffer { name, was_slotted } => Self {
                semaphores: vec![name.to_string()],
                slots: Some(*was_slotted),
                ..problem
            },
            Refusal::TooManySlots { name, capacity } => Self {
                semaphores: vec![name.to_string()],
                field: Some("capacity".into()),
                capacity: Some(capacity.value()),
                ..problem
            },
            Refusal::NoTtl(id) => Self {
                external_id: text(id),
                field: Some("ttl_ms".into()),
                ..problem
            },
            Refusal::SemaphoreInUse { name, in_use } => Self {
                semaphores: vec![name.to_string()],
                in_use: Some(*in_use),
                ..problem
            },
            _ => problem,
        }
    }

    /// The refusal that the problem describes, if all its members are there.
    fn refusal(&self, code: Code) -> Option<Refusal> {
        let external_id = || ExternalId::parse(self.external_id.as_deref()?).ok();
        let names = || -> Option<Vec<_>> {
            let names = self.semaphores.iter().map(SemaphoreName::parse);
            names.collect::<Result<_, _>>().ok()
        };
        let name = || SemaphoreName::parse(self.semaphores.first()?).ok();
        Some(match code {
            Code::UnknownSemaphore => Refusal::UnknownSemaphore(names()?),
            Code::Exhausted if self.capacity == Some(0) => Refusal::Closed(names()?),
            Code::Exhausted => Refusal::Exhausted(names()?),
            Code::UnknownRequest => Refusal::UnknownRequest(external_id()?),
            Code::IdempotencyConflict => match &self.name {
                Some(name) => Refusal::TokenExists(TokenName::parse(name).ok()?),
                None => Refusal::IdempotencyConflict(external_id()?),
            },
            Code::Forbidden => Refusal::OfAnotherToken(external_id()?),
            Code::InvalidRequest if self.capacity.is_some() => Refusal::TooManySlots {
                name: name()?,
                capacity: Capacity::new(self.capacity?).ok()?,
            },
            Code::InvalidRequest => Refusal::NoTtl(external_id()?),
            Code::ExceedsCapacity => Refusal::ExceedsCapacity {
                semaphore: name()?,
                asked: Count::new(self.asked?).ok()?,
                capacity: Capacity::new(self.capacity?).ok()?,
            },
            Code::CapacityChanged if self.slots.is_some() => Refusal::SlotsDiffer {
                name: name()?,
                was_slotted: self.slots?,
            },
            Code::CapacityChanged => Refusal::CapacityChanged {
                name: name()?,
                expected: Capacity::new(self.expected_capacity?).ok()?,
                capacity: Capacity::new(self.capacity?).ok()?,
            },
            Code::RequestEnded => Refusal::RequestEnded {
                external_id: external_id()?,
                reason: EndReason::parse(self.end_reason.as_deref()?)?,
            },
            Code::SessionEnded => Refusal::SessionEnded(Owner::parse(self.owner.as_deref()?).ok()?),
            Code::SemaphoreInUse => Refusal::SemaphoreInUse {
                name: name()?,
                in_use: self.in_use?,
            },
            _ => return None,
        })
    }
}

fn status_and_title(code: Code) -> (u16, &'static str) {
    match code {
        Code::InvalidRequest => (422, "The request is malformed or out of bounds"),
        Code::ExceedsCapacity => (422, "The request asks for more than the capacity"),
        Code::UnknownSemaphore => (404, "The semaphore does not exist"),
        Code::UnknownRequest => (404, "The request does not exist"),
        Code::SemaphoreInUse => (409, "The semaphore is held"),
        Code::CapacityChanged => (409, "The capacity is not the expected one"),
        Code::IdempotencyConflict => (409, "The id belongs to a different request"),
        Code::RequestEnded => (410, "The request has ended"),
        Code::SessionEnded => (410, "The owner's session has ended"),
        Code::Exhausted => (423, "No permits are available"),
        Code::Unauthenticated => (401, "The caller is not authenticated"),
        Code::Forbidden => (403, "The caller is not allowed to do this"),
        Code::StoreUnavailable => (503, "The store did not answer"),
        Code::Overloaded => (503, "The server is overloaded"),
        _ => (500, "Internal error"),
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Invalid(invalid) => Self::invalid(invalid),
            Error::Refused(refusal) => Self::refused(refusal),
            Error::Store(error) => {
                // A store that rejects a statement, or that an operator has to correct, is not the
                // caller's fault.
                let code = match error.kind() {
                    Kind::Rejected => Code::Internal,
                    _ => Code::StoreUnavailable,
                };
                Self {
                    maybe_applied: error.maybe_applied(),
                    ..Self::new(code, error.to_string())
                }
            }
            _ => Self::new(error.code(), error.to_string()),
        }
    }
}

/// The error that the problem was made from, as far as callers can distinguish: all transient
/// errors of a store come back as [`Kind::Unavailable`], or as [`Kind::Unknown`] if the call may
/// have been applied.
impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let Some(code) = Code::parse(&problem.code) else {
            return Error::Internal(problem.detail);
        };
        if let Some(refusal) = problem.refusal(code) {
            return refusal.into();
        }
        match (code, problem.field) {
            (Code::InvalidRequest, Some(field)) => {
                let text = problem.detail.strip_prefix(&field).map(str::trim_start);
                let text = text.unwrap_or(&problem.detail).to_owned();
                Invalid::new(field, text).into()
            }
            (Code::Unauthenticated | Code::Forbidden, _) => Error::Denied {
                code,
                detail: problem.detail,
            },
            (Code::StoreUnavailable, _) if problem.maybe_applied => {
                store::Error::new(Kind::Unknown, problem.detail).into()
            }
            (Code::StoreUnavailable, _) => {
                store::Error::new(Kind::Unavailable, problem.detail).into()
            }
            (Code::Overloaded, _) => Error::Overloaded,
            _ => Error::Internal(problem.detail),
        }
    }
}

#[cfg(test)]
mod tests;
