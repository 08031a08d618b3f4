//! Templates. All are in one row. A change of one template changes that row, so batches that read
//! it to create a semaphore begin again.

use async_trait::async_trait;
use lockhouse_core::store::{Error, Page, Templates};
use lockhouse_core::{Pattern, Semaphore, SemaphoreName, Template, TemplateDefinition, Timestamp};

use super::Redis;
use super::rows::{self, Range};

const ALL: &str = "templates";

#[async_trait]
impl Templates for Redis {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        self.change(ALL, |templates: &mut Vec<Template>, now| {
            let is_it = |template: &Template| template.pattern == definition.pattern;
            let before = templates.iter().position(is_it);
            let was = before.map(|at| templates.remove(at));
            let template = definition.applied_to(was.as_ref(), now);
            templates.push(template.clone());
            templates.sort_by(|one, other| one.pattern.cmp(&other.pattern));
            (template, was.is_none())
        })
        .await
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        self.change(ALL, |templates: &mut Vec<Template>, _| {
            let before = templates.len();
            templates.retain(|template| template.pattern != *pattern);
            templates.len() < before
        })
        .await
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        let (mut templates, _) = self.all::<Template>(ALL).await?;
        templates.retain(|template| page.after.as_ref().is_none_or(|a| template.pattern > *a));
        templates.truncate(page.limit as usize);
        Ok(templates)
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let idle_since = template.idle_since(self.now().await?);
        let capacity = format!("({}", template.capacity);
        let ranges = [
            ("made", Range::of_scores("-inf", &capacity)),
            ("made", Range::of_scores(&capacity, "+inf")),
            (
                "unused",
                Range::of_scores("-inf", Timestamp::as_microsecond(idle_since)),
            ),
        ];
        let mut names = Vec::new();
        for (kind, range) in ranges {
            let set = format!("{kind}:{}", template.pattern);
            let found = self.find("s", &set, &range, limit as usize).await?;
            let found: Vec<Semaphore> = rows::all(found.into_iter().map(|(_, row)| row))?;
            names.extend(found.into_iter().map(|semaphore| semaphore.name));
        }
        Ok(names)
    }
}
