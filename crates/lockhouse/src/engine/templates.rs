//! Templates: what they say is done to their semaphores, in batches.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::store::{Kind, Page};
use lockhouse_core::{
    Command, Invalid, MAX_TEMPLATES, Pattern, Reply, SemaphoreName, Template, TemplateDefinition,
};
use tokio::time::timeout;

use super::{Engine, Touches, retry};
use crate::Error;

/// How many semaphores of a kind are looked for at once. They share a few transactions.
const PIECE: u32 = 200;

/// How long one who changes a template waits for its semaphores to follow. The rest of them follow in the background.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of the semaphores of templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// How many were resized.
    pub(crate) resized: u64,
    /// How many were deleted, as nobody used them.
    pub(crate) deleted: u64,
}

impl AddAssign for Followed {
    fn add_assign(&mut self, more: Self) {
        self.resized += more.resized;
        self.deleted += more.deleted;
    }
}

impl Engine {
    pub(crate) async fn define_template(
        &self,
        definition: TemplateDefinition,
    ) -> Result<(Template, bool), Error> {
        self.check_room_for(&definition.pattern).await?;
        let define = || self.store.define_template(&definition);
        let (template, created) = retry::read(retry::deadline(), define).await?;
        let (engine, followed) = (self.clone(), template.clone());
        let follow = tokio::spawn(async move {
            if let Err(error) = engine.follow(&followed).await {
                let pattern = &followed.pattern;
                tracing::warn!(%pattern, %error, "some semaphores follow their template at the next sweep");
            }
        });
        let _ = timeout(PATIENCE, follow).await;
        Ok((template, created))
    }

    async fn check_room_for(&self, pattern: &Pattern) -> Result<(), Error> {
        let page = Page {
            after: None,
            limit: MAX_TEMPLATES as u32,
        };
        let templates = self.templates(&page).await?;
        let is_there = templates
            .iter()
            .any(|template| template.pattern == *pattern);
        if !is_there && templates.len() >= MAX_TEMPLATES {
            let problem =
                format!("is one too many, there are {MAX_TEMPLATES} templates; delete one");
            return Err(Invalid::new("pattern", problem).into());
        }
        Ok(())
    }

    pub(crate) async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let delete = || self.store.delete_template(pattern);
        retry::read(retry::deadline(), delete).await
    }

    pub(crate) async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        retry::read(retry::deadline(), || self.store.templates(page)).await
    }

    /// Has the semaphores of all templates follow them.
    pub(crate) async fn follow_all(&self) -> Result<Followed, Error> {
        let mut total = Followed::default();
        let mut after = None;
        loop {
            let templates = self
                .templates(&Page {
                    after,
                    limit: PIECE,
                })
                .await?;
            let Some(last) = templates.last() else {
                return Ok(total);
            };
            after = Some(last.pattern.clone());
            for template in &templates {
                total += self.follow(template).await?;
            }
        }
    }

    /// Has the semaphores of `template` follow it, piece by piece.
    ///
    /// Some are found and stay as they are: they are locked, waited for, or in use again. They are found again, so each
    /// piece is larger by their number, and the pieces go on behind them.
    async fn follow(&self, template: &Template) -> Result<Followed, Error> {
        let (mut total, mut stay) = (Followed::default(), HashSet::new());
        loop {
            let limit = PIECE.saturating_add(u32::try_from(stay.len()).unwrap_or(u32::MAX));
            let find = || self.store.to_follow(template, limit);
            let mut names = retry::read(retry::deadline(), find).await?;
            names.retain(|name| !stay.contains(name));
            if names.is_empty() {
                return Ok(total);
            }
            let follows = names.iter().cloned().map(|name| self.follow_one(name));
            let follows: Vec<_> = follows.collect();
            let mut followed = Followed::default();
            for (name, one) in names.iter().zip(join_all(follows).await) {
                let one = one?;
                if one == Followed::default() {
                    stay.insert(name.clone());
                }
                followed += one;
            }
            total += followed;
            // Another process that has changed the template has them follow it.
            if followed == Followed::default() && !self.is_current(template).await? {
                return Ok(total);
            }
        }
    }

    /// Whether `template` is as it was read.
    async fn is_current(&self, template: &Template) -> Result<bool, Error> {
        let page = Page {
            after: None,
            limit: MAX_TEMPLATES as u32,
        };
        Ok(self.templates(&page).await?.contains(template))
    }

    async fn follow_one(&self, name: SemaphoreName) -> Result<Followed, Error> {
        let touches = Touches {
            semaphores: vec![name.clone()],
            frees: Vec::new(),
        };
        let follow = Command::Follow { name };
        let outcome = self.driver.submit(follow, touches, retry::deadline()).await;
        Ok(match outcome {
            Ok(Ok(Reply::Followed {
                semaphore,
                is_resized,
            })) => Followed {
                resized: is_resized.into(),
                deleted: (!semaphore.exists()).into(),
            },
            // Somebody deleted it meanwhile.
            Ok(_) => Followed::default(),
            Err(Error::Store(error)) if error.kind() == Kind::Locked => Followed::default(),
            Err(error) => return Err(error),
        })
    }
}
