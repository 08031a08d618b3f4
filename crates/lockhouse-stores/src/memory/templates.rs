//! Templates.

use async_trait::async_trait;
use lockhouse_core::store::{Error, Page, Templates};
use lockhouse_core::{Pattern, SemaphoreName, SemaphoreRow, Template, TemplateDefinition};

use super::Memory;
use crate::lists;

#[async_trait]
impl Templates for Memory {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        let now = (self.clock)();
        Ok(lists::define(&mut self.rows().templates, definition, now))
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        Ok(self.rows().templates.remove(pattern).is_some())
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        Ok(lists::page(&self.rows().templates, page))
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let idle_since = template.idle_since((self.clock)());
        let differs = |semaphore: &&SemaphoreRow| {
            semaphore.origin.as_ref().is_some_and(|origin| {
                let is_to_resize = semaphore.capacity != template.capacity;
                let is_idle = origin.used_at <= idle_since && semaphore.in_use == 0;
                let follows = origin.template == template.pattern && !origin.is_resized;
                follows && (is_to_resize || is_idle)
            })
        };
        let rows = self.rows();
        let differing = rows.semaphores.values().filter(differs);
        let names = differing.map(|semaphore| semaphore.name.clone());
        Ok(names.take(limit as usize).collect())
    }
}
