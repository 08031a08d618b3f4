//! Templates behind a server.

use lockhouse_core::store::Page;
use lockhouse_core::{Pattern, Template, TemplateDefinition};
use lockhouse_wire as wire;
use reqwest::StatusCode;
use tokio::time::Instant;

use super::Remote;
use super::exchange::PATIENCE;
use crate::Error;

impl Remote {
    pub(crate) async fn define_template(
        &self,
        definition: TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        let url = self.address.template(&definition.pattern)?;
        let body = wire::DefineTemplate::from(&definition);
        let build = || self.client().put(url.clone()).json(&body);
        let answer = self.ask(Instant::now() + PATIENCE, build).await.result?;
        let template = self.read::<wire::Template, _>(&answer)?;
        Ok((template, answer.status == StatusCode::CREATED))
    }

    pub(crate) async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let url = self.address.template(pattern)?;
        let build = || self.client().delete(url.clone());
        let asked = self.ask(Instant::now() + PATIENCE, build).await;
        match asked.result {
            Ok(_) => Ok(true),
            // An earlier try, whose answer was lost, may have deleted it.
            Err(Error::Invalid(invalid)) if invalid.field() == "template" => {
                Ok(asked.asked_before.is_some())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        let url = self.address.page(self.address.templates(), page);
        let answer = self.get(url).await?;
        self.made_all(self.json::<wire::Templates>(&answer)?.templates)
    }
}
