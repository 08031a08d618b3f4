//! Rows as JSON, without what their keys say: a row that was not changed has the bytes that it had.

use lockhouse_core::store::{Error, Kind};
use lockhouse_core::{
    Capacity, CapacityChange, Count, Digest, EndReason, ExternalId, Grant, Idle, Invalid, Line,
    Note, Origin, Owner, OwnerSession, Pattern, Request, Semaphore, SemaphoreName, Slots, State,
    Template, Timestamp, Token, TokenName, Ttl,
};
use serde::{Deserialize, Serialize};

/// Times are microseconds since 1970.
#[derive(Deserialize, Serialize)]
struct SemaphoreRow {
    capacity: u32,
    in_use: u32,
    fence: u64,
    created_at: i64,
    updated_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted_at: Option<i64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    line: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<OriginRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slots: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct OriginRow {
    template: String,
    is_resized: bool,
    used_at: i64,
}

#[derive(Serialize, Deserialize)]
struct TokenRow {
    name: String,
    digest: String,
    grants: String,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

#[derive(Deserialize, Serialize)]
struct TemplateRow {
    pattern: String,
    capacity: u32,
    idle_ms: u64,
    created_at: i64,
    updated_at: i64,
}

#[derive(Deserialize, Serialize)]
struct RequestRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_by: Option<String>,
    permits: Vec<PermitRow>,
}

#[derive(Deserialize, Serialize)]
struct PermitRow {
    semaphore: String,
    count: u32,
    fence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slots: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct SessionRow {
    ttl_ms: u64,
    expires_at: i64,
}

#[derive(Deserialize, Serialize)]
struct ChangeRow {
    old_capacity: u32,
    new_capacity: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    changed_at: i64,
}

pub(super) fn of_semaphore(semaphore: &Semaphore) -> String {
    json(&SemaphoreRow {
        capacity: semaphore.capacity.value(),
        in_use: semaphore.in_use,
        fence: semaphore.fence,
        created_at: semaphore.created_at.as_microsecond(),
        updated_at: semaphore.updated_at.as_microsecond(),
        deleted_at: semaphore.deleted_at.map(Timestamp::as_microsecond),
        line: semaphore.line.to_string(),
        origin: semaphore.origin.as_ref().map(|origin| OriginRow {
            template: origin.template.to_string(),
            is_resized: origin.is_resized,
            used_at: origin.used_at.as_microsecond(),
        }),
        slots: semaphore.slots.as_ref().map(Slots::to_string),
    })
}

/// All templates are one row: whoever changes one changes what every batch has read that creates a semaphore.
pub(super) fn of_templates(templates: &[Template]) -> String {
    let rows = templates.iter().map(|template| TemplateRow {
        pattern: template.pattern.to_string(),
        capacity: template.capacity.value(),
        idle_ms: template.idle.as_ms(),
        created_at: template.created_at.as_microsecond(),
        updated_at: template.updated_at.as_microsecond(),
    });
    json(&rows.collect::<Vec<_>>())
}

pub(super) fn templates(row: &[u8]) -> Result<Vec<Template>, Error> {
    if row.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<TemplateRow> = parse("template", row)?;
    let parsed = rows.into_iter().map(|row| -> Result<_, Why> {
        Ok(Template {
            pattern: Pattern::parse(row.pattern)?,
            capacity: Capacity::new(row.capacity)?,
            idle: Idle::from_ms(row.idle_ms)?,
            created_at: time(row.created_at)?,
            updated_at: time(row.updated_at)?,
        })
    });
    let parsed: Result<_, Why> = parsed.collect();
    parsed.map_err(|why| unreadable("template", why))
}

/// All access tokens are one row, too.
pub(super) fn of_tokens(tokens: &[(Digest, Token)]) -> String {
    let rows = tokens.iter().map(|(digest, token)| TokenRow {
        name: token.name.to_string(),
        digest: digest.to_string(),
        grants: token.grants_text(),
        created_at: token.created_at.as_microsecond(),
        expires_at: token.expires_at.map(|at| at.as_microsecond()),
        revoked_at: token.revoked_at.map(|at| at.as_microsecond()),
    });
    json(&rows.collect::<Vec<_>>())
}

pub(super) fn tokens(row: &[u8]) -> Result<Vec<(Digest, Token)>, Error> {
    if row.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<TokenRow> = parse("token", row)?;
    let parsed = rows.into_iter().map(|row| -> Result<_, Why> {
        let token = Token {
            name: TokenName::parse(row.name)?,
            grants: Token::grants_of(&row.grants)?,
            created_at: time(row.created_at)?,
            expires_at: row.expires_at.map(time).transpose()?,
            revoked_at: row.revoked_at.map(time).transpose()?,
        };
        Ok((row.digest.parse()?, token))
    });
    let parsed: Result<_, Why> = parsed.collect();
    parsed.map_err(|why| unreadable("token", why))
}

pub(super) fn semaphore(name: SemaphoreName, row: &[u8]) -> Result<Semaphore, Error> {
    let row: SemaphoreRow = parse("semaphore", row)?;
    let parsed = || -> Result<_, Why> {
        Ok(Semaphore {
            name,
            capacity: Capacity::new(row.capacity)?,
            in_use: row.in_use,
            fence: row.fence,
            created_at: time(row.created_at)?,
            updated_at: time(row.updated_at)?,
            deleted_at: row.deleted_at.map(time).transpose()?,
            line: Line::stored(&row.line),
            origin: row.origin.map(origin).transpose()?,
            slots: slots(row.slots)?,
        })
    };
    parsed().map_err(|why| unreadable("semaphore", why))
}

pub(super) fn of_request(request: &Request) -> String {
    let permits = request.permits.iter().map(|permit| PermitRow {
        semaphore: permit.semaphore.to_string(),
        count: permit.count.value(),
        fence: permit.fence,
        slots: permit.slots.as_ref().map(Slots::to_string),
    });
    json(&RequestRow {
        owner: request
            .owner
            .as_ref()
            .map(|owner| owner.as_str().to_owned()),
        ttl_ms: request.ttl.map(Ttl::as_ms),
        expires_at: request.expires_at.map(Timestamp::as_microsecond),
        created_at: request.created_at.as_microsecond(),
        released_at: request.released_at().map(Timestamp::as_microsecond),
        end_reason: request.end_reason().map(|reason| reason.to_string()),
        ended_by: request
            .ended_by
            .as_ref()
            .map(|owner| owner.as_str().to_owned()),
        permits: permits.collect(),
    })
}

pub(super) fn request(external_id: ExternalId, row: &[u8]) -> Result<Request, Error> {
    let row: RequestRow = parse("request", row)?;
    let parsed = || -> Result<_, Why> {
        let state = match (row.released_at, row.end_reason) {
            (None, None) => State::Acquired,
            (Some(at), Some(reason)) => State::Released {
                reason: EndReason::parse(&reason).ok_or("an unknown end reason")?,
                at: time(at)?,
            },
            _ => return Err("it has half an end".into()),
        };
        let permits = row.permits.into_iter().map(|permit| {
            Ok(Grant {
                semaphore: SemaphoreName::stored(permit.semaphore)?,
                count: Count::new(permit.count)?,
                fence: permit.fence,
                slots: slots(permit.slots)?,
            })
        });
        Ok(Request {
            external_id,
            owner: row.owner.map(Owner::stored).transpose()?,
            state,
            permits: permits.collect::<Result<_, Invalid>>()?,
            ttl: row.ttl_ms.map(Ttl::from_ms).transpose()?,
            expires_at: row.expires_at.map(time).transpose()?,
            // No transaction of a caller's reaches into Redis.
            finished_at: None,
            created_at: time(row.created_at)?,
            ended_by: row.ended_by.map(Owner::stored).transpose()?,
        })
    };
    parsed().map_err(|why| unreadable("request", why))
}

pub(super) fn of_session(session: &OwnerSession) -> String {
    json(&SessionRow {
        ttl_ms: session.ttl.as_ms(),
        expires_at: session.expires_at.as_microsecond(),
    })
}

pub(super) fn session(owner: Owner, row: &[u8]) -> Result<OwnerSession, Error> {
    let row: SessionRow = parse("session", row)?;
    let parsed = || -> Result<_, Why> {
        Ok(OwnerSession {
            owner,
            ttl: Ttl::from_ms(row.ttl_ms)?,
            expires_at: time(row.expires_at)?,
        })
    };
    parsed().map_err(|why| unreadable("session", why))
}

/// `index` tells apart the changes of one commit, which may be alike.
pub(super) fn of_change(index: usize, change: &CapacityChange) -> String {
    let row = json(&ChangeRow {
        old_capacity: change.old_capacity.value(),
        new_capacity: change.new_capacity.value(),
        changed_by: change
            .changed_by
            .as_ref()
            .map(|owner| owner.as_str().to_owned()),
        note: change.note.as_ref().map(|note| note.as_str().to_owned()),
        changed_at: change.changed_at.as_microsecond(),
    });
    format!("{index} {row}")
}

pub(super) fn change(semaphore: SemaphoreName, row: &[u8]) -> Result<CapacityChange, Error> {
    let begins = row.iter().position(|byte| *byte == b' ').unwrap_or(0);
    let row: ChangeRow = parse("capacity change", &row[begins..])?;
    let parsed = || -> Result<_, Why> {
        Ok(CapacityChange {
            semaphore,
            old_capacity: Capacity::new(row.old_capacity)?,
            new_capacity: Capacity::new(row.new_capacity)?,
            changed_by: row.changed_by.map(Owner::stored).transpose()?,
            note: row.note.map(Note::parse).transpose()?,
            changed_at: time(row.changed_at)?,
        })
    };
    parsed().map_err(|why| unreadable("capacity change", why))
}

fn origin(row: OriginRow) -> Result<Origin, Why> {
    Ok(Origin {
        template: Pattern::parse(row.template)?,
        is_resized: row.is_resized,
        used_at: time(row.used_at)?,
    })
}

fn slots(row: Option<String>) -> Result<Option<Slots>, Invalid> {
    row.as_deref().map(str::parse).transpose()
}

/// Of microseconds.
pub(super) fn time(us: i64) -> Result<Timestamp, Why> {
    Ok(Timestamp::from_microsecond(us)?)
}

pub(super) type Why = Box<dyn std::error::Error + Send + Sync>;

pub(super) fn unreadable(what: &str, why: impl Into<Why>) -> Error {
    let problem = format!("a {what} on the server makes no sense");
    Error::new(Kind::Rejected, problem).caused_by(why)
}

fn parse<'a, T: Deserialize<'a>>(what: &str, row: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(row).map_err(|why| unreadable(what, why))
}

fn json(row: &impl Serialize) -> String {
    // Numbers and texts only, which JSON always has a form for.
    serde_json::to_string(row).unwrap_or_default()
}
