//! Parses rows to the core's types. A malformed row is an error, not a panic.

use std::fmt::Display;
use std::str::FromStr;

use lockhouse_core::store::{Cursor, Error, Kind};
use lockhouse_core::{
    Capacity, CapacityChange, Count, Digest, EndReason, ExternalId, Grant, Idle, Line, Note,
    Origin, Owner, OwnerSession, Pattern, ProcessId, Request, SemaphoreName, SemaphoreRow, Slots,
    State, Template, Timestamp, Token, TokenName, Ttl,
};
use sqlx::{Column as _, ColumnIndex, Decode, Row};

use crate::walk::IndexEntry;

/// A row whose columns are text or NULL.
pub trait TextRow: Send + Sync {
    /// The text of a column, unless it is NULL.
    fn text(&self, column: usize) -> Result<Option<&str>, sqlx::Error>;

    /// The name of a column.
    fn name(&self, column: usize) -> &str;
}

impl<R: Row> TextRow for R
where
    usize: ColumnIndex<R>,
    for<'r> &'r str: Decode<'r, R::Database>,
{
    fn text(&self, column: usize) -> Result<Option<&str>, sqlx::Error> {
        // Unchecked, since the value is text whatever the column's type.
        self.try_get_unchecked(column)
    }

    fn name(&self, column: usize) -> &str {
        self.columns()
            .get(column)
            .map_or("?", |column| column.name())
    }
}

/// The columns that [`semaphore`] reads, of table `s`.
pub(crate) const SEMAPHORE: &str = "s.id,s.name,s.capacity,s.in_use,s.fence,s.created_at,s.updated_at,s.deleted_at,s.line,\
     s.template,s.is_resized,s.used_at,s.slots";

/// The columns that [`request`] reads, of table `r`.
pub(crate) const REQUEST: &str = "r.id,r.external_id,r.owner,r.state,r.end_reason,r.ttl_ms,\
    r.expires_at,r.created_at,r.released_at,r.ended_by,r.finished_at";

/// The number of these columns.
pub(crate) const REQUEST_COLUMNS: usize = 11;

/// The columns that [`permit`] reads, of tables `p` and `s`.
pub(crate) const PERMIT: &str = "p.permit_request_id,s.name,p.count,p.fence,p.slots";

/// The columns that [`capacity_change`] reads, of table `c`.
pub(crate) const CAPACITY_CHANGE: &str =
    "c.old_capacity,c.new_capacity,c.changed_by,c.note,c.changed_at";

/// The columns that [`token`] reads, of table `t`.
pub(crate) const TOKEN: &str = "t.name,t.digest,t.grants,t.created_at,t.expires_at,t.revoked_at";

/// The columns that [`session`] reads, of table `w`.
pub(crate) const SESSION: &str = "w.owner,w.ttl_ms,w.expires_at";

/// The id of a semaphore, and the semaphore.
pub(crate) fn semaphore(row: &impl TextRow) -> Result<(u64, SemaphoreRow), Error> {
    let columns = Columns(row);
    let semaphore = SemaphoreRow {
        name: columns.checked(1, SemaphoreName::stored)?,
        capacity: columns.checked(2, capacity)?,
        in_use: columns.parsed(3)?,
        fence: columns.parsed(4)?,
        created_at: columns.checked(5, time)?,
        updated_at: columns.checked(6, time)?,
        deleted_at: columns.maybe(7, time)?,
        line: Line::stored(columns.text(8)?),
        origin: origin(&columns, 9)?,
        slots: columns.maybe(12, str::parse)?,
    };
    Ok((columns.parsed(0)?, semaphore))
}

/// The columns that [`template`] reads, of table `t`.
pub(crate) const TEMPLATE: &str = "t.pattern,t.capacity,t.idle_ms,t.created_at,t.updated_at";

/// A template.
pub(crate) fn template(row: &impl TextRow) -> Result<Template, Error> {
    let columns = Columns(row);
    Ok(Template {
        pattern: columns.checked(0, Pattern::parse)?,
        capacity: columns.checked(1, capacity)?,
        idle: columns.checked(2, idle)?,
        created_at: columns.checked(3, time)?,
        updated_at: columns.checked(4, time)?,
    })
}

/// The template of a semaphore, from the columns that begin at `first`.
fn origin<R: TextRow>(columns: &Columns<'_, R>, first: usize) -> Result<Option<Origin>, Error> {
    let template = columns.maybe(first, Pattern::parse)?;
    let used_at = columns.maybe(first + 2, time)?;
    let is_resized = columns.text(first + 1)? != "0";
    Ok(template.zip(used_at).map(|(template, used_at)| Origin {
        template,
        is_resized,
        used_at,
    }))
}

/// The name of a semaphore.
pub(crate) fn semaphore_name(row: &impl TextRow) -> Result<SemaphoreName, Error> {
    Columns(row).checked(0, SemaphoreName::stored)
}

/// The id of a request, and the request without its permits.
pub(crate) fn request(row: &impl TextRow) -> Result<(u64, Request), Error> {
    let columns = Columns(row);
    let state = match columns.text(3)? {
        "ACQUIRED" => State::Acquired,
        _ => State::Released {
            reason: columns.checked(4, end_reason)?,
            at: columns.checked(8, time)?,
        },
    };
    let request = Request {
        external_id: columns.checked(1, ExternalId::parse)?,
        owner: columns.maybe(2, Owner::stored)?,
        state,
        permits: Vec::new(),
        ttl: columns.maybe(5, ttl)?,
        expires_at: columns.maybe(6, time)?,
        finished_at: columns.maybe(10, time)?,
        created_at: columns.checked(7, time)?,
        ended_by: columns.maybe(9, Owner::stored)?,
    };
    Ok((columns.parsed(0)?, request))
}

/// The id of a request, and one of its permits, from the columns that begin at `first`.
pub(crate) fn permit(row: &impl TextRow, first: usize) -> Result<(u64, Grant), Error> {
    let columns = Columns(row);
    let permit = Grant {
        semaphore: columns.checked(first + 1, SemaphoreName::stored)?,
        count: columns.checked(first + 2, count)?,
        fence: columns.parsed(first + 3)?,
        slots: columns.maybe(first + 4, str::parse)?,
    };
    Ok((columns.parsed(first)?, permit))
}

/// A change of the capacity of `semaphore`.
pub(crate) fn capacity_change(
    row: &impl TextRow,
    semaphore: &SemaphoreName,
) -> Result<CapacityChange, Error> {
    let columns = Columns(row);
    Ok(CapacityChange {
        semaphore: semaphore.clone(),
        old_capacity: columns.checked(0, capacity)?,
        new_capacity: columns.checked(1, capacity)?,
        changed_by: columns.maybe(2, Owner::stored)?,
        note: columns.maybe(3, Note::parse)?,
        changed_at: columns.checked(4, time)?,
    })
}

/// The session of an owner.
pub(crate) fn session(row: &impl TextRow) -> Result<OwnerSession, Error> {
    let columns = Columns(row);
    Ok(OwnerSession {
        owner: columns.checked(0, Owner::stored)?,
        ttl: columns.checked(1, ttl)?,
        expires_at: columns.checked(2, time)?,
    })
}

/// The digest of a token's secret, and the token.
pub(crate) fn token(row: &impl TextRow) -> Result<(Digest, Token), Error> {
    let columns = Columns(row);
    let token = Token {
        name: columns.checked(0, TokenName::parse)?,
        grants: columns.checked(2, Token::grants_of)?,
        created_at: columns.checked(3, time)?,
        expires_at: columns.maybe(4, time)?,
        revoked_at: columns.maybe(5, time)?,
    };
    Ok((columns.parsed(1)?, token))
}

/// The totals of a semaphore's permits.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) live: u64,
    pub(crate) last_fence: u64,
    pub(crate) repeated_fences: u64,
    pub(crate) misfiled: u64,
}

/// The id of a semaphore, and its totals.
pub(crate) fn sums(row: &impl TextRow) -> Result<(u64, Sums), Error> {
    let columns = Columns(row);
    let sums = Sums {
        live: columns.parsed(1)?,
        last_fence: columns.parsed(2)?,
        repeated_fences: columns.parsed(3)?,
        misfiled: columns.parsed(4)?,
    };
    Ok((columns.parsed(0)?, sums))
}

/// The sum of the live permits, and how many of their requests are misfiled.
pub(crate) fn live(row: &impl TextRow) -> Result<(u64, u64), Error> {
    let columns = Columns(row);
    Ok((columns.parsed(0)?, columns.parsed(1)?))
}

/// The id of a semaphore, and the slots of one of its permits.
pub(crate) fn held_slots(row: &impl TextRow) -> Result<(u64, Slots), Error> {
    let columns = Columns(row);
    Ok((columns.parsed(0)?, columns.parsed(1)?))
}

/// The id of a semaphore, and its greatest fence, or 0.
pub(crate) fn last_fence(row: &impl TextRow) -> Result<(u64, u64), Error> {
    let columns = Columns(row);
    let fence = columns.maybe(1, str::parse)?;
    Ok((columns.parsed(0)?, fence.unwrap_or(0)))
}

/// An entry of an index of live requests: the semaphore that the request holds alone, its id, and 1
/// if it matches the filter.
pub(crate) fn entry(row: &impl TextRow) -> Result<IndexEntry, Error> {
    let columns = Columns(row);
    let at = Cursor {
        group: columns.parsed(0)?,
        row: columns.parsed(1)?,
    };
    let holds = columns.nullable(2)?.is_some();
    Ok(IndexEntry { at, holds })
}

/// The process that published waiters, the waiters as JSON, and when it wrote them.
pub(crate) fn shown(row: &impl TextRow) -> Result<(ProcessId, &str, Timestamp), Error> {
    let columns = Columns(row);
    Ok((
        columns.parsed(0)?,
        columns.text(1)?,
        columns.checked(2, time)?,
    ))
}

/// The key of a row of waiters.
pub(crate) fn shown_key(row: &impl TextRow) -> Result<(SemaphoreName, ProcessId), Error> {
    let columns = Columns(row);
    Ok((
        columns.checked(0, SemaphoreName::stored)?,
        columns.parsed(1)?,
    ))
}

/// The key of a row of waiters, and when it was written.
pub(crate) fn shown_at(row: &impl TextRow) -> Result<(SemaphoreName, ProcessId, Timestamp), Error> {
    let (name, process) = shown_key(row)?;
    Ok((name, process, Columns(row).checked(2, time)?))
}

/// The clock and the number in a row of [`Dialect::look`](super::Dialect::look), whose first column
/// is the id.
pub(crate) fn clock_and_count(row: &impl TextRow) -> Result<(Timestamp, u32), Error> {
    let columns = Columns(row);
    Ok((columns.checked(1, time)?, columns.parsed(2)?))
}

/// A row of one owner.
pub(crate) fn owner(row: &impl TextRow) -> Result<Owner, Error> {
    Columns(row).checked(0, Owner::stored)
}

/// A row of one external id.
pub(crate) fn external_id(row: &impl TextRow) -> Result<ExternalId, Error> {
    Columns(row).checked(0, ExternalId::parse)
}

/// A row of one number.
pub(crate) fn number<T: FromStr<Err: Display>>(row: &impl TextRow) -> Result<T, Error> {
    Columns(row).parsed(0)
}

/// The number in the second column.
pub(crate) fn second_number(row: &impl TextRow) -> Result<u64, Error> {
    Columns(row).parsed(1)
}

/// A row of one text that may be NULL.
pub(crate) fn text(row: &impl TextRow) -> Result<Option<&str>, Error> {
    Columns(row).nullable(0)
}

/// The time from the row of the clock.
pub(crate) fn clock(rows: &[impl TextRow]) -> Result<Timestamp, Error> {
    match rows {
        [row] => moment(row),
        _ => Err(Error::new(
            Kind::Rejected,
            "the database did not answer with its time",
        )),
    }
}

/// A row of one time.
pub(crate) fn moment(row: &impl TextRow) -> Result<Timestamp, Error> {
    Columns(row).checked(0, time)
}

/// The columns of a row.
struct Columns<'r, R>(&'r R);

impl<'r, R: TextRow> Columns<'r, R> {
    fn nullable(&self, column: usize) -> Result<Option<&'r str>, Error> {
        let value = self.0.text(column);
        value.map_err(|error| malformed(self.0, column, error))
    }

    fn text(&self, column: usize) -> Result<&'r str, Error> {
        self.nullable(column)?
            .ok_or_else(|| malformed(self.0, column, "is NULL"))
    }

    fn maybe<T, E: Display>(
        &self,
        column: usize,
        parse: impl FnOnce(&'r str) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let parsed = self.nullable(column)?.map(parse).transpose();
        parsed.map_err(|error| malformed(self.0, column, error))
    }

    fn checked<T, E: Display>(
        &self,
        column: usize,
        parse: impl FnOnce(&'r str) -> Result<T, E>,
    ) -> Result<T, Error> {
        parse(self.text(column)?).map_err(|error| malformed(self.0, column, error))
    }

    fn parsed<T: FromStr<Err: Display>>(&self, column: usize) -> Result<T, Error> {
        self.checked(column, str::parse)
    }
}

fn malformed(row: &impl TextRow, column: usize, problem: impl Display) -> Error {
    let name = row.name(column);
    Error::new(
        Kind::Rejected,
        format!("a row in the database is malformed: {name}: {problem}"),
    )
}

/// `2025-01-31 23:59:59.123456`, in UTC, with `+00` after it or without.
fn time(text: &str) -> Result<Timestamp, String> {
    let time = text.strip_suffix("+00").unwrap_or(text);
    let instant = time.replacen(' ', "T", 1) + "Z";
    instant
        .parse()
        .map_err(|_| format!("\"{text}\" is no time"))
}

fn capacity(text: &str) -> Result<Capacity, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is no number"))?;
    Capacity::new(number).map_err(|invalid| invalid.to_string())
}

fn count(text: &str) -> Result<Count, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is no number"))?;
    Count::new(number).map_err(|invalid| invalid.to_string())
}

fn ttl(text: &str) -> Result<Ttl, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is no number"))?;
    Ttl::from_ms(number).map_err(|invalid| invalid.to_string())
}

fn idle(text: &str) -> Result<Idle, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is no number"))?;
    Idle::from_ms(number).map_err(|invalid| invalid.to_string())
}

fn end_reason(text: &str) -> Result<EndReason, String> {
    EndReason::parse(text).ok_or_else(|| format!("\"{text}\" is no reason"))
}
