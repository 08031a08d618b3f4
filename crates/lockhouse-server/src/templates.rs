//! `/v1/templates`: setting, listing and deleting.

use axum::extract::State;
use axum::http::StatusCode;
use lockhouse::{Lockhouse, Pattern};
use lockhouse_wire::{self as wire, DefineTemplate, Template, Templates};

use crate::audit::Audited;
use crate::body::{Json, Nothing, OptionalJson};
use crate::failure::Failure;
use crate::paging::Paging;
use crate::path::Named;
use crate::query::NoParameters;

pub(crate) async fn put(
    State(lockhouse): State<Lockhouse>,
    Named(pattern): Named<Pattern>,
    _: NoParameters,
    Json(body): Json<DefineTemplate>,
) -> Result<(StatusCode, Audited, Json<Template>), Failure> {
    let mut define = lockhouse.template(pattern.as_str(), body.capacity);
    if let Some(idle_ms) = body.idle_ms {
        define = define.idle_ms(idle_ms);
    }
    let (template, created) = define.send().await?;
    let status = match created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let template = Template::from(&template);
    let audited = Audited::new("set_template", "template", &pattern);
    let audited = audited.with("capacity", template.capacity);
    Ok((status, audited, Json(template)))
}

pub(crate) async fn list(
    State(lockhouse): State<Lockhouse>,
    paging: Paging<Pattern>,
) -> Result<Json<Templates>, Failure> {
    let list = |after, limit| lockhouse.templates(after, limit);
    let listed = list(paging.after.as_ref(), paging.limit).await?;
    let mut next = None;
    if let Some(last) = listed.last().filter(|_| paging.is_full(listed.len())) {
        let more = list(Some(&last.pattern), 1).await?;
        next = (!more.is_empty()).then(|| wire::cursor(last.pattern.as_str()));
    }
    let templates = listed.iter().map(Template::from).collect();
    Ok(Json(Templates { templates, next }))
}

/// The API has no code for an unknown template, so the answer is that of an unknown path.
pub(crate) async fn delete(
    State(lockhouse): State<Lockhouse>,
    Named(pattern): Named<Pattern>,
    _: NoParameters,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<(StatusCode, Audited), Failure> {
    if lockhouse.delete_template(pattern.as_str()).await? {
        let audited = Audited::new("delete_template", "template", &pattern);
        return Ok((StatusCode::NO_CONTENT, audited));
    }
    let problem = format!("\"{pattern}\" does not exist; see GET /v1/templates");
    Err(Failure::malformed("template", problem).under(StatusCode::NOT_FOUND))
}
