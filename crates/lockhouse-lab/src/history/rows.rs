//! The rows of a store: its semaphores, all permits that it ever granted, and its capacity changes.

use lockhouse::{Code, Error, Lockhouse, Timestamp};

/// All rows, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Every semaphore.
    pub semaphores: Vec<SemaphoreRow>,
    /// Every permit ever granted.
    pub permits: Vec<PermitRow>,
    /// Every change of a capacity.
    pub capacity_changes: Vec<CapacityChangeRow>,
}

/// A row of `lockhouse_semaphore`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SemaphoreRow {
    /// Its name.
    pub name: String,
    /// How many permits it has.
    pub capacity: i64,
    /// How many are held, by its counter.
    pub in_use: i64,
    /// The last fence that was taken.
    pub fence: i64,
    /// When it was created last: microseconds.
    pub created_at: i64,
    /// Whether it was deleted, and not created again.
    pub is_deleted: bool,
}

/// A row of `lockhouse_permit` with its request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PermitRow {
    /// The request's id.
    pub external_id: String,
    /// The semaphore's name.
    pub semaphore: String,
    /// How many permits.
    pub count: i64,
    /// The fence.
    pub fence: i64,
    /// The slots, where there are slots: as text, see [`lockhouse::Slots`].
    pub slots: Option<String>,
    /// The request's owner.
    pub owner: Option<String>,
    /// The request's state.
    pub state: String,
    /// The reason of the request's end.
    pub end_reason: Option<String>,
    /// Microseconds.
    pub granted_at: i64,
    /// Microseconds.
    pub expires_at: Option<i64>,
    /// Microseconds.
    pub released_at: Option<i64>,
}

/// A row of `lockhouse_capacity_change`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CapacityChangeRow {
    /// The semaphore's name.
    pub semaphore: String,
    /// The capacity before.
    pub old_capacity: i64,
    /// The capacity after.
    pub new_capacity: i64,
    /// Microseconds.
    pub changed_at: i64,
}

/// The rows as a client shows them: of the requests of `ids`, and of the `semaphores` that are not deleted. For a store
/// that only its client can read.
///
/// # Errors
/// When the store does not answer.
pub async fn told(
    lockhouse: &Lockhouse,
    ids: impl IntoIterator<Item = &str>,
    semaphores: impl IntoIterator<Item = &str>,
) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    for name in semaphores {
        let status = match lockhouse.status(name).await {
            Err(error) if error.code() == Code::UnknownSemaphore => continue,
            status => status?,
        };
        rows.semaphores.push(SemaphoreRow {
            name: name.to_owned(),
            capacity: status.semaphore.capacity.value().into(),
            in_use: status.semaphore.in_use.into(),
            fence: number(status.semaphore.fence),
            created_at: status.semaphore.created_at.as_microsecond(),
            is_deleted: false,
        });
        // The call returns the newest first; the rows have the oldest first.
        for change in lockhouse.history(name, 1000).await?.iter().rev() {
            rows.capacity_changes.push(CapacityChangeRow {
                semaphore: name.to_owned(),
                old_capacity: change.old_capacity.value().into(),
                new_capacity: change.new_capacity.value().into(),
                changed_at: change.changed_at.as_microsecond(),
            });
        }
    }
    for id in ids {
        let request = match lockhouse.find(id).await {
            Err(error) if error.code() == Code::UnknownRequest => continue,
            request => request?,
        };
        let state = if request.is_live() {
            "ACQUIRED"
        } else {
            "RELEASED"
        };
        rows.permits
            .extend(request.permits.iter().map(|permit| PermitRow {
                external_id: id.to_owned(),
                semaphore: permit.semaphore.to_string(),
                count: permit.count.value().into(),
                fence: number(permit.fence),
                slots: permit.slots.as_ref().map(ToString::to_string),
                owner: request.owner.as_ref().map(ToString::to_string),
                state: state.into(),
                end_reason: request.end_reason().map(|reason| reason.as_str().into()),
                granted_at: request.created_at.as_microsecond(),
                expires_at: request.expires_at.map(Timestamp::as_microsecond),
                released_at: request.released_at().map(Timestamp::as_microsecond),
            }));
    }
    Ok(rows)
}

fn number(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}
