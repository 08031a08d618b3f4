//! Parses rows to the core's types. A malformed row is an error, never a panic.
//!
//! "Of `a, b`" in the comment of a function lists the columns that its row must have, in this order.

use lockhouse_core::store::{Cursor, Error, Waiter};
use lockhouse_core::{
    Capacity, CapacityChange, Count, Digest, EndReason, ExternalId, Grant, HeldSlots, Idle, Line,
    Note, Origin, Owner, OwnerSession, Pattern, ProcessId, Recounted, Request, SemaphoreName,
    SemaphoreRow, Slots, State, Template, Timestamp, Token, TokenName, Ttl,
};
use rusqlite::Row;
use rusqlite::types::FromSql;

use super::error::unreadable;
use crate::shown;
use crate::walk::IndexEntry;

/// The `state` of live requests.
pub(super) const ACQUIRED: &str = "ACQUIRED";
/// The `state` of ended requests.
pub(super) const RELEASED: &str = "RELEASED";

/// Of `name, capacity, in_use, fence, created_at, updated_at, deleted_at, line, template,
/// is_resized, used_at, slots`.
pub(super) fn semaphore(row: &Row<'_>) -> Result<SemaphoreRow, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_semaphore",
    };
    Ok(SemaphoreRow {
        name: cells.text(0, SemaphoreName::stored)?,
        capacity: cells.number(1, Capacity::new)?,
        in_use: cells.number(2, u32::try_from)?,
        fence: cells.number(3, u64::try_from)?,
        created_at: cells.number(4, Timestamp::from_microsecond)?,
        updated_at: cells.number(5, Timestamp::from_microsecond)?,
        deleted_at: cells.number_some(6, Timestamp::from_microsecond)?,
        line: Line::stored(&cells.get::<String>(7)?),
        origin: cells.origin(8)?,
        slots: cells.slots(11)?,
    })
}

/// Of `pattern, capacity, idle_ms, created_at, updated_at`.
pub(super) fn template(row: &Row<'_>) -> Result<Template, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_template",
    };
    Ok(Template {
        pattern: cells.text(0, Pattern::parse)?,
        capacity: cells.number(1, Capacity::new)?,
        idle: cells.number(2, Idle::from_ms)?,
        created_at: cells.number(3, Timestamp::from_microsecond)?,
        updated_at: cells.number(4, Timestamp::from_microsecond)?,
    })
}

/// Of `id, external_id, owner, state, end_reason, ttl_ms, expires_at, created_at, released_at,
/// ended_by, finished_at`: the id, and the request without its permits.
pub(super) fn request(row: &Row<'_>) -> Result<(i64, Request), Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit_request",
    };
    let request = Request {
        external_id: cells.text(1, ExternalId::parse)?,
        owner: cells.text_some(2, Owner::stored)?,
        state: cells.state()?,
        permits: Vec::new(),
        ttl: cells.number_some(5, Ttl::from_ms)?,
        expires_at: cells.number_some(6, Timestamp::from_microsecond)?,
        finished_at: cells.number_some(10, Timestamp::from_microsecond)?,
        created_at: cells.number(7, Timestamp::from_microsecond)?,
        ended_by: cells.text_some(9, Owner::stored)?,
    };
    Ok((cells.get(0)?, request))
}

/// Of `semaphore_id, count, fence, slots`; `name` tells what the semaphore is called.
pub(super) fn permit(
    row: &Row<'_>,
    name: impl FnOnce(i64) -> Result<SemaphoreName, Error>,
) -> Result<Grant, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit",
    };
    Ok(Grant {
        semaphore: name(cells.get(0)?)?,
        count: cells.number(1, Count::new)?,
        fence: cells.number(2, u64::try_from)?,
        slots: cells.slots(3)?,
    })
}

/// Of a semaphore's `name`.
pub(super) fn name(row: &Row<'_>) -> Result<SemaphoreName, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_semaphore",
    };
    cells.text(0, SemaphoreName::stored)
}

/// Of `old_capacity, new_capacity, changed_by, note, changed_at`, for `semaphore`.
pub(super) fn capacity_change(
    row: &Row<'_>,
    semaphore: &SemaphoreName,
) -> Result<CapacityChange, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_capacity_change",
    };
    Ok(CapacityChange {
        semaphore: semaphore.clone(),
        old_capacity: cells.number(0, Capacity::new)?,
        new_capacity: cells.number(1, Capacity::new)?,
        changed_by: cells.text_some(2, Owner::stored)?,
        note: cells.text_some(3, Note::parse)?,
        changed_at: cells.number(4, Timestamp::from_microsecond)?,
    })
}

/// Of `owner, ttl_ms, expires_at`.
pub(super) fn session(row: &Row<'_>) -> Result<OwnerSession, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_owner_session",
    };
    Ok(OwnerSession {
        owner: cells.text(0, Owner::stored)?,
        ttl: cells.number(1, Ttl::from_ms)?,
        expires_at: cells.number(2, Timestamp::from_microsecond)?,
    })
}

/// Of `name, digest, grants, created_at, expires_at, revoked_at`: the digest of its secret, and the token.
pub(super) fn token(row: &Row<'_>) -> Result<(Digest, Token), Error> {
    let cells = Cells {
        row,
        of: "lockhouse_token",
    };
    let token = Token {
        name: cells.text(0, TokenName::parse)?,
        grants: cells.text(2, |text| Token::grants_of(&text))?,
        created_at: cells.number(3, Timestamp::from_microsecond)?,
        expires_at: cells.number_some(4, Timestamp::from_microsecond)?,
        revoked_at: cells.number_some(5, Timestamp::from_microsecond)?,
    };
    Ok((cells.text(1, |text| text.parse())?, token))
}

/// Of `process, written_at`: when a process last wrote its list of waiters.
pub(super) fn shown_at(row: &Row<'_>) -> Result<(ProcessId, Timestamp), Error> {
    let cells = Cells {
        row,
        of: "lockhouse_waiting",
    };
    let written = cells.number(1, Timestamp::from_microsecond)?;
    Ok((cells.text(0, |text: String| text.parse())?, written))
}

/// Of `process, waiters, written_at`: the list of waiters of a process.
pub(super) fn shown(row: &Row<'_>) -> Result<(ProcessId, Vec<Waiter>), Error> {
    let cells = Cells {
        row,
        of: "lockhouse_waiting",
    };
    let written = cells.number(2, Timestamp::from_microsecond)?;
    let waiters: String = cells.get(1)?;
    let process = cells.text(0, |text: String| text.parse())?;
    Ok((process, shown::parse(&waiters, written)))
}

/// Of an entry of an index of live requests: `only_semaphore_id, id`, and whether it is one of those that are asked for.
pub(super) fn entry(row: &Row<'_>) -> Result<IndexEntry, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit_request",
    };
    let at = Cursor {
        group: cells.number(0, u64::try_from)?,
        row: cells.number(1, u64::try_from)?,
    };
    let holds = cells.get(2)?;
    Ok(IndexEntry { at, holds })
}

/// Of a request's `external_id`.
pub(super) fn external_id(row: &Row<'_>) -> Result<ExternalId, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit_request",
    };
    cells.text(0, ExternalId::parse)
}

/// Of a request's `created_at`.
pub(super) fn moment(row: &Row<'_>) -> Result<Timestamp, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit_request",
    };
    cells.number(0, Timestamp::from_microsecond)
}

/// Of a request's `owner`.
pub(super) fn owner(row: &Row<'_>) -> Result<Owner, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit_request",
    };
    cells.text(0, Owner::stored)
}

/// Of a [`semaphore`], then `live, last_fence, repeated_fences, misfiled` of its permits. The slots are not of this row.
pub(super) fn recounted(row: &Row<'_>) -> Result<Recounted, Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit",
    };
    Ok(Recounted {
        semaphore: semaphore(row)?,
        live: cells.number(12, u64::try_from)?,
        last_fence: cells.number(13, u64::try_from)?,
        repeated_fences: cells.number(14, u64::try_from)?,
        misfiled: cells.number(15, u64::try_from)?,
        slots: HeldSlots::default(),
    })
}

/// Of a semaphore's `name`, and `slots` that one of its permits holds.
pub(super) fn held_slots(row: &Row<'_>) -> Result<(SemaphoreName, Slots), Error> {
    let cells = Cells {
        row,
        of: "lockhouse_permit",
    };
    Ok((name(row)?, cells.slots(1)?.unwrap_or_default()))
}

type Why = Box<dyn std::error::Error + Send + Sync>;

/// One row of the table `of`.
struct Cells<'a> {
    row: &'a Row<'a>,
    of: &'static str,
}

impl Cells<'_> {
    fn get<T: FromSql>(&self, column: usize) -> Result<T, Error> {
        self.row.get(column).map_err(|why| self.bad(column, why))
    }

    /// The template of a semaphore, from the columns that begin at `first`.
    fn origin(&self, first: usize) -> Result<Option<Origin>, Error> {
        let template = self.text_some(first, Pattern::parse)?;
        let is_resized = self.get(first + 1)?;
        let used_at = self.number_some(first + 2, Timestamp::from_microsecond)?;
        Ok(template.zip(used_at).map(|(template, used_at)| Origin {
            template,
            is_resized,
            used_at,
        }))
    }

    fn number<T, E: Into<Why>>(
        &self,
        column: usize,
        parse: impl FnOnce(i64) -> Result<T, E>,
    ) -> Result<T, Error> {
        parse(self.get(column)?).map_err(|why| self.bad(column, why))
    }

    fn number_some<T, E: Into<Why>>(
        &self,
        column: usize,
        parse: impl FnOnce(i64) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let number: Option<i64> = self.get(column)?;
        let parsed = number.map(parse).transpose();
        parsed.map_err(|why| self.bad(column, why))
    }

    fn text<T, E: Into<Why>>(
        &self,
        column: usize,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Result<T, Error> {
        parse(self.get(column)?).map_err(|why| self.bad(column, why))
    }

    fn text_some<T, E: Into<Why>>(
        &self,
        column: usize,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let text: Option<String> = self.get(column)?;
        let parsed = text.map(parse).transpose();
        parsed.map_err(|why| self.bad(column, why))
    }

    fn slots(&self, column: usize) -> Result<Option<Slots>, Error> {
        self.text_some(column, |text| text.parse())
    }

    /// Of `state, end_reason` and `released_at`, at 3, 4 and 8.
    fn state(&self) -> Result<State, Error> {
        let state: String = self.get(3)?;
        let reason = |text: String| EndReason::parse(&text).ok_or(format!("it is \"{text}\""));
        match state.as_str() {
            ACQUIRED => Ok(State::Acquired),
            RELEASED => Ok(State::Released {
                reason: self.text(4, reason)?,
                at: self.number(8, Timestamp::from_microsecond)?,
            }),
            _ => Err(self.bad(3, format!("it is \"{state}\""))),
        }
    }

    fn bad(&self, column: usize, why: impl Into<Why>) -> Error {
        let name = self.row.as_ref().column_name(column).unwrap_or("?");
        unreadable(format_args!("{}.{name}", self.of), why)
    }
}
