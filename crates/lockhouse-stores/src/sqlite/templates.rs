//! Templates.

use lockhouse_core::store::{Error, Page};
use lockhouse_core::{Pattern, SemaphoreName, Template, TemplateDefinition};
use rusqlite::{Connection, params};

use super::clock::now;
use super::error::cannot;
use super::read::list;
use super::rows;
use super::save::integer;

const SELECT_ALL: &str = "
    SELECT pattern, capacity, idle_ms, created_at, updated_at FROM lockhouse_template
    ORDER BY pattern";

const SELECT_TEMPLATE: &str = "
    SELECT pattern, capacity, idle_ms, created_at, updated_at FROM lockhouse_template
    WHERE pattern = ?1";

const LIST_TEMPLATES: &str = "
    SELECT pattern, capacity, idle_ms, created_at, updated_at FROM lockhouse_template
    WHERE pattern > ?1 ORDER BY pattern LIMIT ?2";

const UPSERT_TEMPLATE: &str = "
    INSERT INTO lockhouse_template (pattern, capacity, idle_ms, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (pattern) DO UPDATE SET
        capacity = excluded.capacity, idle_ms = excluded.idle_ms, updated_at = excluded.updated_at";

const DELETE_TEMPLATE: &str = "DELETE FROM lockhouse_template WHERE pattern = ?1";

pub(super) const LIST_SMALLER: &str = "
    SELECT name FROM lockhouse_semaphore
    WHERE template = ?1 AND is_resized = 0 AND capacity < ?2 LIMIT ?3";

pub(super) const LIST_LARGER: &str = "
    SELECT name FROM lockhouse_semaphore
    WHERE template = ?1 AND is_resized = 0 AND capacity > ?2 LIMIT ?3";

pub(super) const LIST_IDLE: &str = "
    SELECT name FROM lockhouse_semaphore
    WHERE template = ?1 AND is_resized = 0 AND used_at <= ?2 AND in_use = 0
    ORDER BY used_at LIMIT ?3";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    SELECT_TEMPLATE,
    LIST_TEMPLATES,
    UPSERT_TEMPLATE,
    DELETE_TEMPLATE,
    LIST_SMALLER,
    LIST_LARGER,
    LIST_IDLE,
];

/// All templates: at most [`MAX_TEMPLATES`](lockhouse_core::MAX_TEMPLATES), or a few more if several processes
/// created the last ones at once.
pub(super) fn all(connection: &Connection) -> Result<Vec<Template>, Error> {
    list(connection, SELECT_ALL, (), rows::template)
}

pub(super) fn define(
    connection: &Connection,
    definition: &TemplateDefinition,
) -> Result<(Template, bool), Error> {
    let key = [definition.pattern.as_str()];
    let before = list(connection, SELECT_TEMPLATE, key, rows::template)?.pop();
    let template = definition.applied_to(before.as_ref(), now()?);
    let row = params![
        template.pattern.as_str(),
        template.capacity.value(),
        integer(template.idle.as_ms())?,
        template.created_at.as_microsecond(),
        template.updated_at.as_microsecond(),
    ];
    connection
        .prepare_cached(UPSERT_TEMPLATE)
        .and_then(|mut upsert| upsert.execute(row))
        .map_err(cannot("save a template"))?;
    Ok((template, before.is_none()))
}

/// Deletes the template of `pattern`. Returns whether there was one.
pub(super) fn delete(connection: &Connection, pattern: &Pattern) -> Result<bool, Error> {
    let deleted = connection
        .prepare_cached(DELETE_TEMPLATE)
        .and_then(|mut delete| delete.execute([pattern.as_str()]))
        .map_err(cannot("delete a template"))?;
    Ok(deleted > 0)
}

pub(super) fn page(connection: &Connection, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
    let after = page.after.as_ref().map_or("", Pattern::as_str);
    let key = params![after, page.limit];
    list(connection, LIST_TEMPLATES, key, rows::template)
}

pub(super) fn to_follow(
    connection: &Connection,
    template: &Template,
    limit: u32,
) -> Result<Vec<SemaphoreName>, Error> {
    let (pattern, capacity) = (template.pattern.as_str(), template.capacity.value());
    let idle_since = template.idle_since(now()?).as_microsecond();
    let mut names = Vec::new();
    for statement in [LIST_SMALLER, LIST_LARGER] {
        let key = params![pattern, capacity, limit];
        names.extend(list(connection, statement, key, rows::name)?);
    }
    let key = params![pattern, idle_since, limit];
    names.extend(list(connection, LIST_IDLE, key, rows::name)?);
    Ok(names)
}
