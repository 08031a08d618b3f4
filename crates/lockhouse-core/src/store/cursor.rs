//! Cursors of listings of requests.

use std::fmt;
use std::str::FromStr;

use crate::{Invalid, Request};

/// Where a listing of requests goes on: after the last row that was read.
///
/// A store walks over live requests in the order of one of its indexes, by numbers that it assigned
/// and that never change. Only the store knows what the numbers mean. Callers pass a cursor back
/// unchanged, to the same listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The part of the index; 0 where it has only one. At most [`i64::MAX`], as is the row.
    pub group: u64,
    /// The row in that part.
    pub row: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.row)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // Databases have signed integers only.
        let number = |digits: &str| u64::try_from(digits.parse::<i64>().ok()?).ok();
        let numbers = text.split_once('.');
        let cursor = numbers.and_then(|(group, row)| {
            Some(Self {
                group: number(group)?,
                row: number(row)?,
            })
        });
        // Refuse any other spelling of the same numbers.
        let cursor = cursor.filter(|cursor| cursor.to_string() == text);
        cursor.ok_or_else(|| {
            Invalid::new(
                "cursor",
                "is not the `next` of a listing; pass that value unchanged",
            )
        })
    }
}

/// A page of a listing of live requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The requests. There may be fewer than were asked for, or none, although more follow.
    pub requests: Vec<Request>,
    /// Where the next page begins. `None` at the end.
    pub next: Option<Cursor>,
}
