//! Reads rows. They are JSON, and an unchanged row keeps its bytes.

use std::sync::LazyLock;

use lockhouse_core::Timestamp;
use lockhouse_core::store::{Error, Kind};
use redis::Script;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Redis;

/// The version of the schema.
pub(super) const SCHEMA: u32 = 2;

static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/load.lua")));
static FIND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/find.lua")));

/// The bytes of a row. Empty if it does not exist.
pub(super) type Row = Vec<u8>;

/// The rows of some keys, all read at one moment.
#[derive(Default)]
pub(super) struct ReadRows {
    pub(super) at: Timestamp,
    pub(super) keys: Vec<String>,
    pub(super) values: Vec<Row>,
}

/// A part of a sorted set.
pub(super) struct SetRange {
    /// `BYSCORE` or `BYLEX`.
    by: &'static str,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl SetRange {
    pub(super) fn of_scores(from: impl ToString, to: impl ToString) -> Self {
        let (from, to) = (from.to_string().into(), to.to_string().into());
        let by = "BYSCORE";
        Self { by, from, to }
    }

    pub(super) fn of_bytes(from: impl Into<Vec<u8>>, to: impl Into<Vec<u8>>) -> Self {
        let (by, from, to) = ("BYLEX", from.into(), to.into());
        Self { by, from, to }
    }
}

impl Redis {
    /// The rows of `keys`. The schema must be the one that this version needs.
    pub(super) async fn load(
        &self,
        keys: impl IntoIterator<Item = String>,
    ) -> Result<ReadRows, Error> {
        let keys: Vec<_> = keys.into_iter().collect();
        let mut script = LOAD.key(self.keys.of("schema"));
        let script = script.key(&keys);
        let (us, mut values): (i64, Vec<Row>) = self.connections.read(script).await?;
        let schema = values.remove(0);
        if schema == SCHEMA.to_string().as_bytes() {
            let at = time(us)?;
            return Ok(ReadRows { at, keys, values });
        }
        let at = &self.connections.display;
        let problem = match String::from_utf8_lossy(&schema).as_ref() {
            "" => format!("{at} has no schema of Lockhouse; run `lockhouse migrate`"),
            other => format!(
                "the schema at {at} is version {other}, and this program needs {SCHEMA}; use the program of that version"
            ),
        };
        Err(Error::new(Kind::Schema, problem))
    }

    /// The server's clock.
    pub(super) async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.load([]).await?.at)
    }

    /// The scores and the rows of at most `limit` members of a set. A row has the key `kind` and the last part of the member.
    pub(super) async fn find(
        &self,
        kind: &str,
        set: &str,
        range: &SetRange,
        limit: usize,
    ) -> Result<(Vec<f64>, Vec<Row>), Error> {
        let mut script = FIND.key(self.keys.of(set));
        script.arg(self.keys.each(kind, "")).arg(range.by);
        script.arg(&range.from).arg(&range.to).arg(limit);
        self.connections.read(&script).await
    }
}

/// The rows that exist.
pub(super) fn all<T: DeserializeOwned>(
    rows: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<Vec<T>, Error> {
    let rows = rows.into_iter().filter(|row| !row.as_ref().is_empty());
    rows.map(|row| parse(row.as_ref())).collect()
}

pub(super) fn parse<T: DeserializeOwned>(row: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(row).map_err(unreadable)
}

pub(super) fn json(row: &impl Serialize) -> String {
    // Numbers and texts only, which JSON always has a form for.
    serde_json::to_string(row).unwrap_or_default()
}

/// The time of `us` microseconds since the epoch.
pub(super) fn time(us: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(us).map_err(unreadable)
}

pub(super) fn unreadable(why: impl std::error::Error + Send + Sync + 'static) -> Error {
    let problem = "a row on the server is malformed";
    Error::new(Kind::Rejected, problem).caused_by(why)
}

#[cfg(test)]
mod tests {
    use lockhouse_core::{
        CapacityChange, Digest, OwnerSession, Request, SemaphoreRow, Template, Token,
    };

    use super::*;

    /// Later versions must be able to read the rows.
    #[test]
    fn rows_keep_their_form() {
        fn same<T: DeserializeOwned + Serialize>(row: &str) {
            assert_eq!(json(&parse::<T>(row.as_bytes()).unwrap()), row);
        }
        same::<SemaphoreRow>(
            r#"{"name":"lockhouse:a","capacity":3,"in_use":1,"fence":9007199254740993,"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:05Z","deleted_at":null,"line":""}"#,
        );
        same::<SemaphoreRow>(
            r#"{"name":"c/1","capacity":3,"in_use":2,"fence":9,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","deleted_at":null,"line":"","origin":{"template":"c/*","is_resized":false,"used_at":"2026-01-02T03:04:05Z"},"slots":"3"}"#,
        );
        same::<Vec<Template>>(
            r#"[{"pattern":"c/*","capacity":3,"idle":60000,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}]"#,
        );
        let digest = "0f".repeat(32);
        same::<Vec<(Digest, Token)>>(&format!(
            r#"[["{digest}",{{"name":"ci","grants":["hold:c/*","read:*"],"created_at":"2026-01-02T03:04:05Z","expires_at":null,"revoked_at":"2026-01-02T03:04:06Z"}}]]"#
        ));
        let live = r#"{"external_id":"x","owner":"o","state":"acquired","permits":[{"semaphore":"a","count":2,"fence":7}],"ttl":60000,"expires_at":"2026-01-02T03:05:05Z","created_at":"2026-01-02T03:04:05Z","ended_by":null}"#;
        same::<Request>(live);
        let end = r#"{"released":{"reason":"owner_dead","at":"2026-01-02T03:04:06Z"}}"#;
        same::<Request>(&live.replace(r#""acquired""#, end));
        same::<OwnerSession>(r#"{"owner":"o","ttl":5000,"expires_at":"2026-01-02T03:05:05Z"}"#);
        same::<CapacityChange>(
            r#"{"semaphore":"a","old_capacity":0,"new_capacity":3,"changed_by":null,"note":"more","changed_at":"2026-01-02T03:04:05Z"}"#,
        );
    }

    #[test]
    fn a_row_out_of_bounds_is_refused() {
        let session = r#"{"owner":"o","ttl":0,"expires_at":"2026-01-02T03:05:05Z"}"#;
        let refused = parse::<OwnerSession>(session.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Rejected);
        let reason = r#"{"released":{"reason":"bored","at":"2026-01-02T03:04:06Z"}}"#;
        assert!(parse::<lockhouse_core::State>(reason.as_bytes()).is_err());
    }
}
