//! Templates.

use lockhouse_core::store::{Error, Page};
use lockhouse_core::{Pattern, SemaphoreName, Template, TemplateDefinition};
use sqlx::error::DatabaseError;

use super::Inner;
use super::dialect::Dialect;
use super::error::{alone, servers_word};
use super::pool::Lease;
use super::read::{READ, clock, select};
use super::rows;
use super::script::Script;
use super::transact::WORK;

const CONTEXT: &str = "changing a template";

pub(crate) async fn define<D: Dialect>(
    store: &Inner<D>,
    definition: &TemplateDefinition,
) -> Result<(Template, bool), Error> {
    let mut lease = store.pool.lend(WORK).await?;
    let mut defined = write(&mut lease, definition).await;
    lease.roll_back().await;
    if matches!(&defined, Err(error) if is_taken(error)) {
        // Another process created it meanwhile.
        defined = write(&mut lease, definition).await;
        lease.roll_back().await;
    }
    defined.map_err(alone)
}

fn is_taken(error: &Error) -> bool {
    servers_word(error).is_some_and(DatabaseError::is_unique_violation)
}

/// Leaves the transaction open if an error occurs.
async fn write<D: Dialect>(
    lease: &mut Lease<D>,
    definition: &TemplateDefinition,
) -> Result<(Template, bool), Error> {
    let before = lock(lease, &definition.pattern).await?;
    let now = clock_within(lease).await?;
    let template = definition.applied_to(before.as_ref(), now);
    let script = written::<D>(&template, before.is_none());
    lease.run(&script, CONTEXT).await?;
    Ok((template, before.is_none()))
}

/// Writes `template` and commits.
fn written<D: Dialect>(template: &Template, is_new: bool) -> Script {
    let (pattern, capacity, idle) = (
        D::text(template.pattern.as_str()),
        template.capacity,
        template.idle.as_ms(),
    );
    let (created_at, updated_at) = (D::time(template.created_at), D::time(template.updated_at));
    let mut script = Script::new();
    match is_new {
        true => script.add(format_args!(
            "INSERT INTO lockhouse_template (pattern,capacity,idle_ms,created_at,updated_at) \
             VALUES ({pattern},{capacity},{idle},{created_at},{updated_at})"
        )),
        false => script.add(format_args!(
            "UPDATE lockhouse_template SET capacity={capacity},idle_ms={idle},updated_at={updated_at} \
             WHERE pattern={pattern}"
        )),
    }
    script.commit();
    script
}

pub(crate) async fn delete<D: Dialect>(store: &Inner<D>, pattern: &Pattern) -> Result<bool, Error> {
    let mut lease = store.pool.lend(WORK).await?;
    let deleted = lock_delete(&mut lease, pattern).await;
    lease.roll_back().await;
    deleted.map_err(alone)
}

async fn lock_delete<D: Dialect>(lease: &mut Lease<D>, pattern: &Pattern) -> Result<bool, Error> {
    if lock(lease, pattern).await?.is_none() {
        return Ok(false);
    }
    let mut script = Script::of(format_args!(
        "DELETE FROM lockhouse_template WHERE pattern={}",
        D::text(pattern.as_str())
    ));
    script.commit();
    lease.run(&script, CONTEXT).await?;
    Ok(true)
}

/// Begins a transaction that locks the template of `pattern`, if there is one.
async fn lock<D: Dialect>(
    lease: &mut Lease<D>,
    pattern: &Pattern,
) -> Result<Option<Template>, Error> {
    let mut script = Script::transaction(D::BEGIN);
    script.add(format_args!(
        "SELECT {} FROM lockhouse_template t WHERE t.pattern={} FOR UPDATE",
        rows::TEMPLATE,
        D::text(pattern.as_str())
    ));
    let found = select(lease, &script, CONTEXT).await?;
    found.first().map(rows::template).transpose()
}

async fn clock_within<D: Dialect>(
    lease: &mut Lease<D>,
) -> Result<lockhouse_core::Timestamp, Error> {
    let found = select(lease, &Script::within(D::CLOCK), CONTEXT).await?;
    rows::clock(&found)
}

pub(crate) async fn list<D: Dialect>(
    store: &Inner<D>,
    page: &Page<Pattern>,
) -> Result<Vec<Template>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let after = page.after.as_ref().map_or("", Pattern::as_str);
    let script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_template t WHERE t.pattern>{} ORDER BY t.pattern LIMIT {}",
        rows::TEMPLATE,
        D::text(after),
        page.limit
    ));
    let found = select(&mut lease, &script, "listing templates").await?;
    found.iter().map(rows::template).collect()
}

pub(crate) async fn to_follow<D: Dialect>(
    store: &Inner<D>,
    template: &Template,
    limit: u32,
) -> Result<Vec<SemaphoreName>, Error> {
    const CONTEXT: &str = "finding what follows a template";
    let mut lease = store.pool.lend(READ).await?;
    let now = clock(&mut lease, CONTEXT).await?;
    let mut names = Vec::new();
    for script in find::<D>(template, template.idle_since(now), limit) {
        for row in select(&mut lease, &script, CONTEXT).await? {
            names.push(rows::semaphore_name(&row)?);
        }
    }
    Ok(names)
}

/// Three SELECTs of semaphores of a template: smaller ones, larger ones, and idle ones.
pub(crate) fn find<D: Dialect>(
    template: &Template,
    idle_since: lockhouse_core::Timestamp,
    limit: u32,
) -> [Script; 3] {
    let (pattern, capacity) = (D::text(template.pattern.as_str()), template.capacity);
    let [by_template, by_use] = D::BY_TEMPLATE;
    let differing = |than: &str| {
        Script::of(format_args!(
            "SELECT s.name FROM {by_template} WHERE s.template={pattern} AND s.is_resized=0 \
             AND s.capacity{than}{capacity} LIMIT {limit}"
        ))
    };
    // `<>`: with `=0` PostgreSQL takes the index of the capacities, and reads all semaphores of the template.
    let idle = Script::of(format_args!(
        "SELECT s.name FROM {by_use} WHERE s.template={pattern} AND s.is_resized<>1 AND s.used_at<={} \
         AND s.in_use=0 ORDER BY s.used_at LIMIT {limit}",
        D::time(idle_since)
    ));
    [differing("<"), differing(">"), idle]
}
