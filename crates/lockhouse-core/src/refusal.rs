//! Why a valid command is refused.

use std::fmt;

use crate::{
    Capacity, Code, Count, EndReason, ExternalId, MAX_SLOTTED_CAPACITY, Owner, SemaphoreName,
    TokenName,
};

/// Why a valid command is refused. The command changes nothing. It may only end a request whose TTL has passed, or that its
/// holder has finished.
///
/// ```
/// use lockhouse_core::{Code, ExternalId, Refusal};
///
/// let refusal = Refusal::UnknownRequest(ExternalId::parse("job-abc-123")?);
/// assert_eq!(refusal.code(), Code::UnknownRequest);
/// assert_eq!(
///     refusal.to_string(),
///     "request \"job-abc-123\" does not exist; check the id, or acquire again with a new one"
/// );
/// assert!(!refusal.lacks_room());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// These semaphores do not exist.
    #[error("semaphore {} does not exist; create it first", Names(.0))]
    UnknownSemaphore(Vec<SemaphoreName>),
    /// No request has this id.
    #[error("request \"{0}\" does not exist; check the id, or acquire again with a new one")]
    UnknownRequest(ExternalId),
    /// The request asks for more permits than the capacity, which is above 0.
    #[error(
        "the request asks for {asked} permits of \"{semaphore}\", whose capacity is {capacity}; ask for fewer, or resize it"
    )]
    ExceedsCapacity {
        /// The semaphore.
        semaphore: SemaphoreName,
        /// How many permits were asked for.
        asked: Count,
        /// Its capacity.
        capacity: Capacity,
    },
    /// These semaphores have no room now, or had none within the wait.
    #[error("no room now on semaphore {}; wait longer, or try again later", Names(.0))]
    Exhausted(Vec<SemaphoreName>),
    /// These semaphores are closed: their capacity is 0 until they are resized. A request may wait for that, and
    /// reserves nothing on its other semaphores meanwhile.
    #[error("semaphore {} is closed, its capacity is 0; wait, or resize it to open it", Names(.0))]
    Closed(Vec<SemaphoreName>),
    /// There may be room on these semaphores, but earlier waiters come first. The engine needs the difference; callers
    /// get [`Exhausted`](Refusal::Exhausted).
    #[error("earlier waiters come first on semaphore {}; wait in line, or try again later", Names(.0))]
    OthersFirst(Vec<SemaphoreName>),
    /// The id belongs to a request with other permits or another owner.
    #[error("external_id \"{0}\" belongs to a different request; use another id")]
    IdempotencyConflict(ExternalId),
    /// A valid access token has this name.
    #[error("token \"{0}\" exists; revoke it first, or choose another name")]
    TokenExists(TokenName),
    /// Another token made the request, or no token did.
    #[error(
        "request \"{0}\" belongs to another token; use that token, or one with force on each semaphore of the request"
    )]
    OfAnotherToken(ExternalId),
    /// The request has ended.
    #[error(
        "request \"{external_id}\" has ended: {reason}; stop its work, and acquire again with a new id"
    )]
    RequestEnded {
        /// The request.
        external_id: ExternalId,
        /// Why it ended.
        reason: EndReason,
    },
    /// The owner has no session: it has lapsed, was ended, or never began.
    #[error(
        "owner \"{0}\" has no session, so its permits may have been released; stop the work, and begin a new session"
    )]
    SessionEnded(Owner),
    /// The semaphore has another capacity than the one that the caller expected.
    #[error(
        "capacity of \"{name}\" is {capacity}, not {expected}; read it again before changing it"
    )]
    CapacityChanged {
        /// The semaphore.
        name: SemaphoreName,
        /// The capacity that the caller expected.
        expected: Capacity,
        /// Its capacity.
        capacity: Capacity,
    },
    /// The semaphore exists with slots where none are wanted, or without slots where they are.
    #[error(
        "semaphore \"{name}\" exists {with} slots; define it {with} slots, or choose another name",
        with = if *.was_slotted { "with" } else { "without" }
    )]
    SlotsDiffer {
        /// The semaphore.
        name: SemaphoreName,
        /// Whether the existing semaphore has slots.
        was_slotted: bool,
    },
    /// A slotted semaphore cannot have so many permits.
    #[error(
        "capacity is {capacity}, with slots it goes from 0 to {MAX_SLOTTED_CAPACITY}; choose a smaller one, or no slots"
    )]
    TooManySlots {
        /// The semaphore.
        name: SemaphoreName,
        /// The capacity that was wanted.
        capacity: Capacity,
    },
    /// The renewal has no TTL, and the request has none either.
    #[error("ttl_ms is missing, and request \"{0}\" was acquired without one; renew it with a TTL")]
    NoTtl(ExternalId),
    /// The semaphore cannot be deleted, nor its slots turned on or off, while permits are held.
    #[error("{in_use} permits of semaphore \"{name}\" are held; release them first")]
    SemaphoreInUse {
        /// The semaphore.
        name: SemaphoreName,
        /// How many permits are held.
        in_use: u32,
    },
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::UnknownSemaphore(_) => Code::UnknownSemaphore,
            Refusal::UnknownRequest(_) => Code::UnknownRequest,
            Refusal::ExceedsCapacity { .. } => Code::ExceedsCapacity,
            Refusal::Exhausted(_) | Refusal::Closed(_) | Refusal::OthersFirst(_) => Code::Exhausted,
            Refusal::IdempotencyConflict(_) => Code::IdempotencyConflict,
            Refusal::TokenExists(_) => Code::IdempotencyConflict,
            Refusal::OfAnotherToken(_) => Code::Forbidden,
            Refusal::RequestEnded { .. } => Code::RequestEnded,
            Refusal::SessionEnded(_) => Code::SessionEnded,
            Refusal::CapacityChanged { .. } | Refusal::SlotsDiffer { .. } => Code::CapacityChanged,
            Refusal::NoTtl(_) | Refusal::TooManySlots { .. } => Code::InvalidRequest,
            Refusal::SemaphoreInUse { .. } => Code::SemaphoreInUse,
        }
    }

    /// Whether a release can make room. A waiter that is refused for this reason holds up the waiters behind it.
    pub fn lacks_room(&self) -> bool {
        matches!(self, Refusal::Exhausted(_) | Refusal::OthersFirst(_))
    }
}

struct Names<'a>(&'a [SemaphoreName]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.iter().enumerate() {
            write!(f, "{}\"{name}\"", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
