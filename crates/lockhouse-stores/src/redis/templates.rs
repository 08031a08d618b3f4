//! Templates.

use async_trait::async_trait;
use lockhouse_core::store::{Error, Kind, Page, Templates};
use lockhouse_core::{Pattern, SemaphoreName, Template, TemplateDefinition, Timestamp};

use super::answer::Rows;
use super::{Inner, Redis, rows};

/// So often a change is tried while others change templates.
const TRIES: usize = 100;

#[async_trait]
impl Templates for Redis {
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        self.0
            .change_templates(|templates, now| {
                let is_it = |template: &Template| template.pattern == definition.pattern;
                let before = templates.iter().position(is_it);
                let was = before.map(|at| templates.remove(at));
                let template = definition.applied_to(was.as_ref(), now);
                templates.push(template.clone());
                (template, was.is_none())
            })
            .await
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        self.0
            .change_templates(|templates, _| {
                let before = templates.len();
                templates.retain(|template| template.pattern != *pattern);
                templates.len() < before
            })
            .await
    }

    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        let (templates, ..) = self.0.read_templates().await?;
        let after = |template: &Template| page.after.as_ref().is_none_or(|a| template.pattern > *a);
        let rest = templates.into_iter().filter(after);
        Ok(rest.take(page.limit as usize).collect())
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let idle_since = template.idle_since(self.0.now().await?).as_microsecond();
        let (capacity, pattern) = (template.capacity, template.pattern.as_str());
        let mut names = Vec::new();
        for (kind, from, to) in [
            ("made", "-inf".to_owned(), format!("({capacity}")),
            ("made", format!("({capacity}"), "+inf".to_owned()),
            ("unused", "-inf".to_owned(), idle_since.to_string()),
        ] {
            let set = format!("{kind}:{pattern}");
            let range = [from.into_bytes(), to.into_bytes()];
            let found = self.0.scored("s", &set, range, limit as usize).await?;
            for name in found.members {
                let name = SemaphoreName::stored(name);
                names.push(name.map_err(|why| rows::unreadable("name", why))?);
            }
        }
        Ok(names)
    }
}

impl Inner {
    /// All templates, in byte order; their row, and the time.
    async fn read_templates(&self) -> Result<(Vec<Template>, Vec<u8>, Timestamp), Error> {
        let Rows { at, mut values, .. } = self.rows(vec![self.keys.of("templates")]).await?;
        let row = values.pop().unwrap_or_default();
        Ok((rows::templates(&row)?, row, at))
    }

    async fn change_templates<T>(
        &self,
        change: impl Fn(&mut Vec<Template>, Timestamp) -> T,
    ) -> Result<T, Error> {
        for _ in 0..TRIES {
            let (mut templates, row, now) = self.read_templates().await?;
            let before = templates.clone();
            let changed = change(&mut templates, now);
            if templates == before {
                return Ok(changed);
            }
            templates.sort_by(|one, other| one.pattern.cmp(&other.pattern));
            let (key, is) = (self.keys.of("templates"), rows::of_templates(&templates));
            if self.replace(key, row, is, "changing a template").await? {
                return Ok(changed);
            }
        }
        let busy = "other processes kept changing templates; try again";
        Err(Error::new(Kind::Conflict, busy))
    }
}
