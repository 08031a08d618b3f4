//! Templates: resizes and deletes their semaphores, in batches.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::store::{Kind, Page};
use lockhouse_core::{
    Command, Invalid, MAX_TEMPLATES, Pattern, Reply, SemaphoreName, Template, TemplateDefinition,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::queue::Touches;
use super::{Engine, retry};
use crate::Error;

/// How many semaphores are read at a time. They share a few transactions.
const PIECE: u32 = 200;

/// How long a call that changes a template waits until its semaphores are resized. The rest are
/// resized in the background.
const PATIENCE: Duration = Duration::from_secs(5);

/// A batch that read a template before it changed may create a semaphore with the old capacity. So
/// the semaphores are resized once more after this time. If a batch takes longer, the next sweep resizes its semaphores.
const BATCHES_END_WITHIN: Duration = Duration::from_secs(1);

/// All templates, also if several processes have created the last ones at once.
const ALL: Page<Pattern> = Page {
    after: None,
    limit: 2 * MAX_TEMPLATES as u32,
};

/// How many semaphores of templates were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// How many were resized.
    pub(crate) resized: u64,
    /// How many idle ones were deleted.
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
        let ((template, created), _) = self.retry.write(retry::deadline(), define).await?;
        let (engine, followed) = (self.clone(), template.clone());
        let (tell, is_followed) = oneshot::channel();
        tokio::spawn(async move {
            engine.follow_or_warn(&followed).await;
            let _ = tell.send(());
            sleep(BATCHES_END_WITHIN).await;
            engine.follow_or_warn(&followed).await;
        });
        let _ = timeout(PATIENCE, is_followed).await;
        Ok((template, created))
    }

    async fn follow_or_warn(&self, template: &Template) {
        if let Err(error) = self.follow(template).await {
            let pattern = &template.pattern;
            tracing::warn!(%pattern, %error, "some semaphores follow their template at the next sweep");
        }
    }

    async fn check_room_for(&self, pattern: &Pattern) -> Result<(), Error> {
        let templates = self.templates(&ALL).await?;
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
        let (deleted, is_lost) = self.retry.write(retry::deadline(), delete).await?;
        // An earlier try, whose answer was lost, may have deleted it.
        Ok(deleted || is_lost)
    }

    pub(crate) async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error> {
        self.retry
            .read(retry::deadline(), || self.store.templates(page))
            .await
    }

    /// Resizes or deletes the semaphores of all templates, as their templates say. If the store rejects those of some
    /// templates, the others follow theirs all the same, and the first error is returned.
    pub(crate) async fn follow_all(&self) -> Result<Followed, Error> {
        let mut total = Followed::default();
        let mut rejected = None;
        let mut after = None;
        loop {
            let templates = self
                .templates(&Page {
                    after,
                    limit: PIECE,
                })
                .await?;
            let Some(last) = templates.last() else {
                return rejected.map_or(Ok(total), Err);
            };
            after = Some(last.pattern.clone());
            for template in &templates {
                match self.follow(template).await {
                    Ok(followed) => total += followed,
                    Err(Error::Store(error)) if error.kind() == Kind::Rejected => {
                        rejected.get_or_insert(Error::Store(error));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Resizes or deletes the semaphores of `template`, batch by batch.
    async fn follow(&self, template: &Template) -> Result<Followed, Error> {
        let mut total = Followed::default();
        // Of the batch before.
        let mut changed = HashSet::new();
        // These are in use again, waited for, locked, or found again although they were changed. They would be found for ever,
        // and hide others.
        let mut left = HashSet::new();
        loop {
            let deadline = retry::deadline();
            let limit = PIECE + left.len() as u32;
            let find = || self.store.to_follow(template, limit);
            let mut names = self.retry.read(deadline, find).await?;
            names.retain(|name| !left.contains(name));
            if names.is_empty() {
                return Ok(total);
            }
            let (again, names): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| changed.contains(name));
            left.extend(again);
            changed.clear();
            let follows = names.iter().map(|name| self.follow_one(name.clone()));
            let followed = join_all(follows).await;
            for (name, followed) in names.into_iter().zip(followed) {
                let followed = followed?;
                total += followed;
                match followed == Followed::default() {
                    true => left.insert(name),
                    false => changed.insert(name),
                };
            }
            // They follow what their template says now, which another process may have changed or deleted meanwhile.
            if changed.is_empty() && !self.is_current(template).await? {
                return Ok(total);
            }
        }
    }

    async fn is_current(&self, template: &Template) -> Result<bool, Error> {
        let templates = self.templates(&ALL).await?;
        Ok(templates.contains(template))
    }

    async fn follow_one(&self, name: SemaphoreName) -> Result<Followed, Error> {
        let touches = Touches {
            semaphores: vec![name.clone()],
            frees: Vec::new(),
        };
        let follow = Command::Follow { name };
        let outcome = self.decide(follow, touches, retry::deadline()).await;
        Ok(match outcome {
            Ok(Ok(Reply::Followed {
                semaphore,
                is_resized,
            })) => Followed {
                resized: is_resized.into(),
                deleted: (!semaphore.exists()).into(),
            },
            // Another caller deleted it meanwhile.
            Ok(_) => Followed::default(),
            Err(Error::Store(error)) if error.kind() == Kind::Locked => Followed::default(),
            Err(error) => return Err(error),
        })
    }
}
