//! Waiters as the JSON in a row of `lockhouse_waiting`, one row a process and semaphore.

use std::time::Duration;

use lockhouse_core::store::{ShownWaiter, Waiter};
use lockhouse_core::{Count, ExternalId, Invalid, Owner, Priority, SemaphoreName, Timestamp};
use serde::{Deserialize, Serialize};

/// About how many bytes of JSON one statement writes, and the most bytes of one row: further
/// waiters are left out.
const MOST_BYTES: usize = 256 * 1024;

#[derive(Deserialize, Serialize)]
struct StoredWaiter {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    count: u32,
    priority: i32,
    waited_us: u64,
    lacks: Vec<String>,
}

/// The semaphores of `waiting`, each with its waiters as JSON, in pieces for one statement each.
pub(crate) fn pieces(
    waiting: &[(SemaphoreName, Vec<ShownWaiter>)],
) -> Vec<Vec<(&SemaphoreName, String)>> {
    let (mut pieces, mut piece, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (name, waiters) in waiting {
        let text = text(waiters);
        if !piece.is_empty() && bytes + text.len() > MOST_BYTES {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes += text.len();
        piece.push((name, text));
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn text(waiters: &[ShownWaiter]) -> String {
    let mut text = String::from("[");
    for waiter in waiters {
        // Numbers and texts only, which JSON always has a form for.
        let row = serde_json::to_string(&row(waiter)).unwrap_or_default();
        if text.len() + row.len() > MOST_BYTES {
            break;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&row);
    }
    text + "]"
}

fn row(waiter: &ShownWaiter) -> StoredWaiter {
    StoredWaiter {
        id: waiter.external_id.to_string(),
        owner: waiter.owner.as_ref().map(|owner| owner.as_str().to_owned()),
        count: waiter.count.value(),
        priority: waiter.priority.value(),
        waited_us: u64::try_from(waiter.waited.as_micros()).unwrap_or(u64::MAX),
        lacks: waiter.lacks.iter().map(SemaphoreName::to_string).collect(),
    }
}

/// The waiters of `text`, which was written at `written`. Malformed ones are left out: only the
/// list depends on them.
pub(crate) fn parse(text: &str, written: Timestamp) -> Vec<Waiter> {
    let rows: Vec<StoredWaiter> = serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "a list of waiters in the database is malformed");
        Vec::new()
    });
    let waiters = rows.into_iter().map(|row| waiter(row, written));
    waiters.filter_map(Result::ok).collect()
}

fn waiter(row: StoredWaiter, written: Timestamp) -> Result<Waiter, Invalid> {
    let lacks = row.lacks.iter().map(SemaphoreName::stored);
    let waiter = ShownWaiter {
        external_id: ExternalId::parse(&row.id)?,
        owner: row.owner.map(Owner::stored).transpose()?,
        count: Count::new(row.count)?,
        priority: Priority::new(row.priority)?,
        waited: Duration::from_micros(row.waited_us),
        lacks: lacks.collect::<Result<_, _>>()?,
    };
    Ok(waiter.at(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(id: &str) -> ShownWaiter {
        ShownWaiter {
            external_id: ExternalId::parse(id).unwrap(),
            owner: Some(Owner::parse("'o\"").unwrap()),
            count: Count::new(3).unwrap(),
            priority: Priority::new(-7).unwrap(),
            waited: Duration::from_micros(1_234_567),
            lacks: vec![SemaphoreName::parse("a").unwrap()],
        }
    }

    #[test]
    fn waiters_come_back_as_they_were_shown() {
        let waiting = [(
            SemaphoreName::parse("a").unwrap(),
            vec![shown("x"), shown("y")],
        )];
        let pieces = pieces(&waiting);
        let now: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let parsed = parse(&pieces[0][0].1, now);
        assert_eq!(parsed, [shown("x").at(now), shown("y").at(now)]);
        assert_eq!(parsed[0].since.to_string(), "2026-01-02T03:04:04.444334Z");
        assert!(parse("nonsense", now).is_empty());
        let no_id = r#"[{"id":"","count":1,"priority":0,"waited_us":1,"lacks":[]}]"#;
        assert!(parse(no_id, now).is_empty());
    }

    #[test]
    fn a_statement_is_bounded() {
        let long = "é".repeat(100);
        let many: Vec<_> = (0..200)
            .map(|i| {
                let name = |j| SemaphoreName::parse(format!("{long}{j}")).unwrap();
                let lacks = (0..64).map(name).collect();
                let waiter = shown(&i.to_string());
                ShownWaiter { lacks, ..waiter }
            })
            .collect();
        let waiting =
            ["a", "b", "c"].map(|name| (SemaphoreName::parse(name).unwrap(), many.clone()));
        let pieces = pieces(&waiting);
        assert_eq!(pieces.len(), 3);
        for (_, text) in pieces.concat() {
            assert!(text.len() <= MOST_BYTES + 1, "{}", text.len());
            assert!(parse(&text, Timestamp::UNIX_EPOCH).len() > 1);
        }
    }
}
