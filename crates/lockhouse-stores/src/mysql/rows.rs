//! Rows as the core's types. A row that makes no sense is an error, not a panic.

use std::fmt::Display;
use std::str::FromStr;

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{
    Capacity, CapacityChange, Count, EndReason, ExternalId, Note, Owner, OwnerSession, Permit,
    Request, Semaphore, SemaphoreName, State, Timestamp, Ttl,
};
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

/// The columns that [`semaphore`] reads, of table `s`.
pub(super) const SEMAPHORE: &str =
    "s.id,s.name,s.capacity,s.in_use,s.fence,s.created_at,s.updated_at,s.deleted_at";

/// The columns that [`request`] reads, of table `r`.
pub(super) const REQUEST: &str = "r.id,r.external_id,r.owner,r.state,r.end_reason,r.ttl_ms,\
    r.expires_at,r.created_at,r.released_at,r.ended_by";

/// How many they are.
pub(super) const REQUEST_COLUMNS: usize = 10;

/// The columns that [`permit`] reads, of tables `p` and `s`.
pub(super) const PERMIT: &str = "p.permit_request_id,s.name,p.`count`,p.fence";

/// The columns that [`capacity_change`] reads, of table `c`.
pub(super) const CAPACITY_CHANGE: &str =
    "c.old_capacity,c.new_capacity,c.changed_by,c.note,c.changed_at";

/// The columns that [`session`] reads, of table `w`.
pub(super) const SESSION: &str = "w.owner,w.ttl_ms,w.expires_at";

/// A semaphore, after its id.
pub(super) fn semaphore(row: &MySqlRow) -> Result<(u64, Semaphore), Error> {
    let columns = Columns(row);
    let semaphore = Semaphore {
        name: columns.checked(1, SemaphoreName::parse)?,
        capacity: columns.checked(2, capacity)?,
        in_use: columns.parsed(3)?,
        fence: columns.parsed(4)?,
        created_at: columns.checked(5, time)?,
        updated_at: columns.checked(6, time)?,
        deleted_at: columns.maybe(7, time)?,
    };
    Ok((columns.parsed(0)?, semaphore))
}

/// A request without its permits, after its id.
pub(super) fn request(row: &MySqlRow) -> Result<(u64, Request), Error> {
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
        owner: columns.maybe(2, Owner::parse)?,
        state,
        permits: Vec::new(),
        ttl: columns.maybe(5, ttl)?,
        expires_at: columns.maybe(6, time)?,
        created_at: columns.checked(7, time)?,
        ended_by: columns.maybe(9, Owner::parse)?,
    };
    Ok((columns.parsed(0)?, request))
}

/// A permit after its request's id, from the columns that begin at `first`.
pub(super) fn permit(row: &MySqlRow, first: usize) -> Result<(u64, Permit), Error> {
    let columns = Columns(row);
    let permit = Permit {
        semaphore: columns.checked(first + 1, SemaphoreName::parse)?,
        count: columns.checked(first + 2, count)?,
        fence: columns.parsed(first + 3)?,
    };
    Ok((columns.parsed(first)?, permit))
}

/// A change of the capacity of `semaphore`.
pub(super) fn capacity_change(
    row: &MySqlRow,
    semaphore: &SemaphoreName,
) -> Result<CapacityChange, Error> {
    let columns = Columns(row);
    Ok(CapacityChange {
        semaphore: semaphore.clone(),
        old_capacity: columns.checked(0, capacity)?,
        new_capacity: columns.checked(1, capacity)?,
        changed_by: columns.maybe(2, Owner::parse)?,
        note: columns.maybe(3, Note::parse)?,
        changed_at: columns.checked(4, time)?,
    })
}

/// The session of an owner.
pub(super) fn session(row: &MySqlRow) -> Result<OwnerSession, Error> {
    let columns = Columns(row);
    Ok(OwnerSession {
        owner: columns.checked(0, Owner::parse)?,
        ttl: columns.checked(1, ttl)?,
        expires_at: columns.checked(2, time)?,
    })
}

/// What the permits of a semaphore come to.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) live: u64,
    pub(super) last_fence: u64,
    pub(super) repeated_fences: u64,
    pub(super) last_granted_at: Option<Timestamp>,
}

/// Sums after the semaphore's id.
pub(super) fn sums(row: &MySqlRow) -> Result<(u64, Sums), Error> {
    let columns = Columns(row);
    let sums = Sums {
        live: columns.parsed(1)?,
        last_fence: columns.parsed(2)?,
        repeated_fences: columns.parsed(3)?,
        last_granted_at: columns.maybe(4, time)?,
    };
    Ok((columns.parsed(0)?, sums))
}

/// The greatest fence, or 0, after the semaphore's id.
pub(super) fn last_fence(row: &MySqlRow) -> Result<(u64, u64), Error> {
    let columns = Columns(row);
    let fence = columns.maybe(1, str::parse)?;
    Ok((columns.parsed(0)?, fence.unwrap_or(0)))
}

/// A row of one owner.
pub(super) fn owner(row: &MySqlRow) -> Result<Owner, Error> {
    Columns(row).checked(0, Owner::parse)
}

/// A row of one external id.
pub(super) fn external_id(row: &MySqlRow) -> Result<ExternalId, Error> {
    Columns(row).checked(0, ExternalId::parse)
}

/// A row of one number.
pub(super) fn number<T: FromStr<Err: Display>>(row: &MySqlRow) -> Result<T, Error> {
    Columns(row).parsed(0)
}

/// A row of one text that may be NULL.
pub(super) fn text(row: &MySqlRow) -> Result<Option<&str>, Error> {
    Columns(row).nullable(0)
}

/// A row of one time.
pub(super) fn clock(row: &MySqlRow) -> Result<Timestamp, Error> {
    Columns(row).checked(0, time)
}

/// The columns of a row. In the text protocol each is text or NULL.
struct Columns<'r>(&'r MySqlRow);

impl<'r> Columns<'r> {
    fn nullable(&self, column: usize) -> Result<Option<&'r str>, Error> {
        let value = self.0.try_get_unchecked::<Option<&str>, _>(column);
        value.map_err(|error| senseless(self.0, column, error))
    }

    fn text(&self, column: usize) -> Result<&'r str, Error> {
        self.nullable(column)?
            .ok_or_else(|| senseless(self.0, column, "is NULL"))
    }

    fn maybe<T, E: Display>(
        &self,
        column: usize,
        parse: impl FnOnce(&'r str) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let parsed = self.nullable(column)?.map(parse).transpose();
        parsed.map_err(|error| senseless(self.0, column, error))
    }

    fn checked<T, E: Display>(
        &self,
        column: usize,
        parse: impl FnOnce(&'r str) -> Result<T, E>,
    ) -> Result<T, Error> {
        parse(self.text(column)?).map_err(|error| senseless(self.0, column, error))
    }

    fn parsed<T: FromStr<Err: Display>>(&self, column: usize) -> Result<T, Error> {
        self.checked(column, str::parse)
    }
}

fn senseless(row: &MySqlRow, column: usize, problem: impl Display) -> Error {
    use sqlx::Column as _;
    let name = row
        .columns()
        .get(column)
        .map_or("?", |column| column.name());
    Error::new(
        Kind::Rejected,
        format!("a row in the database makes no sense: {name}: {problem}"),
    )
}

/// `2025-01-31 23:59:59.123456`, in UTC.
fn time(text: &str) -> Result<Timestamp, String> {
    let instant = text.replacen(' ', "T", 1) + "Z";
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

fn end_reason(text: &str) -> Result<EndReason, String> {
    EndReason::parse(text).ok_or_else(|| format!("\"{text}\" is no reason"))
}
