//! The server's answers, read.

use lockhouse_core::Timestamp;
use lockhouse_core::store::Error;
use redis::Value;

use super::rows::{Why, time, unreadable};

/// The rows of some keys, all as they were at one time.
pub(super) struct Rows {
    pub(super) at: Timestamp,
    pub(super) keys: Vec<String>,
    /// The value of each key; empty for one that is not there.
    pub(super) values: Vec<Vec<u8>>,
}

/// Members of a sorted set, and the row of each.
#[derive(Default)]
pub(super) struct Found {
    pub(super) members: Vec<String>,
    /// None unless they were asked for.
    pub(super) scores: Vec<i64>,
    /// Empty for one that is not there.
    pub(super) rows: Vec<Vec<u8>>,
}

impl Rows {
    pub(super) fn read(keys: Vec<String>, answer: Value) -> Result<Self, Error> {
        let [seconds, micros, values] = parts(answer)?;
        let (seconds, micros) = (number(&seconds)?, number(&micros)?);
        let at = time(seconds * 1_000_000 + micros).map_err(bad)?;
        let values = bytes(values)?;
        match values.len() == keys.len() {
            true => Ok(Self { at, keys, values }),
            false => Err(bad("it has not as many rows as there are keys")),
        }
    }
}

impl Found {
    pub(super) fn read(answer: Value) -> Result<Self, Error> {
        let [members, scores, rows] = parts(answer)?;
        let scores = array(scores)?;
        Ok(Self {
            members: texts(members)?,
            scores: scores.iter().map(number).collect::<Result<_, _>>()?,
            rows: bytes(rows)?,
        })
    }

    /// Those whose row is there, with the last part of the member.
    pub(super) fn rows(self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let rows = self.members.into_iter().zip(self.rows);
        rows.filter(|(_, row)| !row.is_empty())
            .map(|(member, row)| (last_part(&member).to_owned(), row))
    }
}

/// What is behind the last zero byte.
pub(super) fn last_part(member: &str) -> &str {
    member.rsplit('\0').next().unwrap_or_default()
}

pub(super) fn parts<const N: usize>(answer: Value) -> Result<[Value; N], Error> {
    let parts = array(answer)?;
    parts.try_into().map_err(|_| bad("it has other parts"))
}

pub(super) fn array(answer: Value) -> Result<Vec<Value>, Error> {
    match answer {
        Value::Array(values) => Ok(values),
        _ => Err(bad("it is no array")),
    }
}

/// Nothing for what is not there.
pub(super) fn bytes(answer: Value) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = array(answer)?.into_iter().map(|value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::Nil => Ok(Vec::new()),
        _ => Err(bad("it is no text")),
    });
    bytes.collect()
}

pub(super) fn texts(answer: Value) -> Result<Vec<String>, Error> {
    let texts = bytes(answer)?.into_iter();
    texts
        .map(|text| String::from_utf8(text).map_err(bad))
        .collect()
}

pub(super) fn text(answer: &Value) -> Result<&str, Error> {
    match answer {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(bad),
        Value::SimpleString(text) => Ok(text),
        _ => Err(bad("it is no text")),
    }
}

/// An integer, also where it is written as a score is.
pub(super) fn number(answer: &Value) -> Result<i64, Error> {
    match answer {
        Value::Int(number) => Ok(*number),
        Value::Double(number) => Ok(*number as i64),
        other => {
            let text = text(other)?;
            let integer = text.parse().ok();
            let number = integer.or_else(|| Some(text.parse::<f64>().ok()? as i64));
            number.ok_or_else(|| bad("it is no number"))
        }
    }
}

fn bad(why: impl Into<Why>) -> Error {
    unreadable("answer", why)
}
