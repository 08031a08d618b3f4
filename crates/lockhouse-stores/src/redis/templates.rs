//! Templates. All are in one row. A change of one template changes that row, so batches that read
//! it to create a semaphore begin again.

use async_trait::async_trait;
use lockhouse_core::store::{Error, Page, Templates};
use lockhouse_core::{Pattern, SemaphoreName, SemaphoreRow, Template, TemplateDefinition};

use super::Redis;
use super::rows::{self, SetRange};
use super::writes::Listed;
use crate::lists;

impl Listed for Template {
    const LIST: &'static str = "templates";
    type Key = Pattern;

    fn key(&self) -> Pattern {
        self.pattern.clone()
    }
}

#[async_trait]
impl Templates for Redis {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        self.change::<Template, _>(|templates, now| lists::define(templates, definition, now))
            .await
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        self.change::<Template, _>(|templates, _| templates.remove(pattern).is_some())
            .await
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        let (templates, _) = self.all::<Template>().await?;
        Ok(lists::page(&templates, page))
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let idle_since = template.idle_since(self.now().await?).as_microsecond();
        let capacity = format!("({}", template.capacity);
        let ranges = [
            ("made", SetRange::of_scores("-inf", &capacity)),
            ("made", SetRange::of_scores(&capacity, "+inf")),
            ("unused", SetRange::of_scores("-inf", idle_since)),
        ];
        let mut names = Vec::new();
        for (kind, range) in ranges {
            let set = format!("{kind}:{}", template.pattern);
            let (_, found) = self.find("s", &set, &range, limit as usize).await?;
            let found: Vec<SemaphoreRow> = rows::all(found)?;
            names.extend(found.into_iter().map(|semaphore| semaphore.name));
        }
        Ok(names)
    }
}
