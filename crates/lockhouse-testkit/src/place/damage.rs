//! Damage to rows, past the store, that no batch would write. A recount finds it.

use std::time::Duration;

use lockhouse_core::{Changes, Footprint, Timestamp};
use lockhouse_stores::Memory;
use serde_json::{Value, from_value, json, to_value};

use super::{Place, run_on};
use crate::redis;

/// A change of a row of a semaphore or a request. "Live" and "Ended" name the state that the request must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The counters of a semaphore.
    Counters {
        /// The count of permits in use.
        in_use: u32,
        /// The last fence.
        fence: u64,
    },
    /// The capacity of a semaphore, without a resize.
    Capacity(u32),
    /// The fence of all permits of a request.
    Fence(u64),
    /// The time of a grant, by an hour. So the clock seems to have been set back since.
    AnHourLater,
    /// Live: the index by which a refusal finds the request once it has lapsed. On Redis only requests with a TTL are in it.
    Misfiled,
    /// Live: it has the reason of an end.
    LiveWithReason,
    /// Live: it has the time of an end.
    LiveWithTime,
    /// Live: it has the caller of an end.
    LiveWithCaller,
    /// Live: the state is that of an ended request, without a reason and a time.
    OnlyStateEnded,
    /// Ended: the reason is missing.
    EndedWithoutReason,
    /// Ended: the time is missing.
    EndedWithoutTime,
    /// All permits of a request are missing.
    WithoutPermits,
    /// The row of a request is missing, and its permits are not.
    Lost,
}

/// Damages the rows of the semaphores or requests called `of`. Returns false if the store has no form for that damage:
///
/// - A row on Redis has the state and the end of a request in one value. So a live one has no reason and no time of an end.
/// - A row in memory also has the types of a whole request, so that it is never lost and no part of its end is missing. It is
///   never misfiled, since a recount has no index to compare it with.
pub async fn damage(place: &Place, of: &[&str], damage: Damage) -> bool {
    if !place.is_damaged {
        return true;
    }
    if let Some(memory) = &place.memory {
        return damage.in_memory(memory, of);
    }
    if redis::is_redis(place.url()) {
        return damage.on_redis(place.url(), of).await;
    }
    let hour = match place.url().starts_with("sqlite:") {
        true => "3600000000",
        false => "INTERVAL '1' HOUR",
    };
    run_on(place, &damage.sql(of, hour)).await;
    true
}

impl Damage {
    fn is_of_a_semaphore(self) -> bool {
        matches!(self, Damage::Counters { .. } | Damage::Capacity(_))
    }

    fn sql(self, of: &[&str], hour: &str) -> String {
        let of = format!("('{}')", of.join("','"));
        let semaphores =
            |change: &str| format!("UPDATE lockhouse_semaphore SET {change} WHERE name IN {of}");
        let of = format!("external_id IN {of}");
        let requests =
            |change: &str| format!("UPDATE lockhouse_permit_request SET {change} WHERE {of}");
        let of_permits =
            format!("permit_request_id IN (SELECT id FROM lockhouse_permit_request WHERE {of})");
        match self {
            Damage::Counters { in_use, fence } => {
                semaphores(&format!("in_use={in_use},fence={fence}"))
            }
            Damage::Capacity(capacity) => semaphores(&format!("capacity={capacity}")),
            Damage::Fence(fence) => {
                format!("UPDATE lockhouse_permit SET fence={fence} WHERE {of_permits}")
            }
            Damage::AnHourLater => requests(&format!("created_at=created_at+{hour}")),
            Damage::Misfiled => requests("only_semaphore_id=99"),
            Damage::LiveWithReason => requests("end_reason='forced'"),
            Damage::LiveWithTime => requests("released_at=created_at"),
            Damage::LiveWithCaller => requests("ended_by='o'"),
            Damage::OnlyStateEnded => requests("state='RELEASED'"),
            Damage::EndedWithoutReason => requests("end_reason=NULL"),
            Damage::EndedWithoutTime => requests("released_at=NULL"),
            Damage::WithoutPermits => format!("DELETE FROM lockhouse_permit WHERE {of_permits}"),
            Damage::Lost => format!("DELETE FROM lockhouse_permit_request WHERE {of}"),
        }
    }

    /// Damages a row of JSON. Returns whether JSON has a form for that.
    fn change(self, row: &mut Value) -> bool {
        match self {
            Damage::Counters { in_use, fence } => {
                row["in_use"] = in_use.into();
                row["fence"] = fence.into();
            }
            Damage::Capacity(capacity) => row["capacity"] = capacity.into(),
            Damage::Fence(fence) => {
                for permit in row["permits"].as_array_mut().unwrap() {
                    permit["fence"] = fence.into();
                }
            }
            Damage::AnHourLater => {
                let granted: Timestamp = row["created_at"].as_str().unwrap().parse().unwrap();
                let later = granted + Duration::from_secs(3_600);
                row["created_at"] = later.to_string().into();
            }
            Damage::LiveWithCaller => row["ended_by"] = "o".into(),
            Damage::OnlyStateEnded => row["state"] = "released".into(),
            Damage::EndedWithoutReason => row["state"]["released"]["reason"] = Value::Null,
            Damage::EndedWithoutTime => row["state"]["released"]["at"] = Value::Null,
            Damage::WithoutPermits => row["permits"] = json!([]),
            Damage::Lost => *row = Value::Null,
            Damage::LiveWithReason | Damage::LiveWithTime | Damage::Misfiled => return false,
        }
        true
    }

    async fn on_redis(self, url: &str, of: &[&str]) -> bool {
        let kind = if self.is_of_a_semaphore() { 's' } else { 'r' };
        let mut is_possible = true;
        for of in of {
            match self {
                Damage::Misfiled => redis::misfile(url, of).await,
                _ => {
                    let change = |row: &mut Value| is_possible &= self.change(row);
                    redis::change(url, &format!("{kind}:{of}"), change).await;
                }
            }
        }
        is_possible
    }

    fn in_memory(self, memory: &Memory, of: &[&str]) -> bool {
        let mut footprint = Footprint::default();
        for of in of {
            let _ = match self.is_of_a_semaphore() {
                true => footprint.semaphores.insert(of.parse().unwrap()),
                false => footprint.requests.insert(of.parse().unwrap()),
            };
        }
        let changed = |mut row: Value| self.change(&mut row).then_some(row);
        let mut transaction = memory.begin();
        let rows = transaction.load(&footprint);
        let semaphores = rows
            .semaphores
            .values()
            .map(|row| from_value(changed(to_value(row).ok()?)?).ok());
        let requests = rows
            .requests
            .values()
            .map(|row| from_value(changed(to_value(row).ok()?)?).ok());
        let (Some(semaphores), Some(granted)) = (semaphores.collect(), requests.collect()) else {
            return false;
        };
        transaction.save(Changes {
            semaphores,
            granted,
            ..Changes::default()
        });
        true
    }
}
