//! Templates, as a store keeps them.

use std::fmt;

use async_trait::async_trait;

use super::{Error, Page};
use crate::{Pattern, SemaphoreName, Template, TemplateDefinition};

/// Keeps templates. What they do to semaphores is decided by [`decide`](crate::decide()), which is given all of them where
/// a batch [asks for them](crate::Footprint::templates).
///
/// # Contract
/// - Each call is one transaction, ends within 10 s, and is safe to do again.
/// - A change of a template waits for the batches that have read it, so that a semaphore which a batch creates
///   either has the new capacity or is found by [`to_follow`](Templates::to_follow) afterwards.
/// - Reading waits for no lock.
#[async_trait]
pub trait Templates: fmt::Debug + Send + Sync + 'static {
    /// Creates a template or changes one; as it is now, and whether it was created.
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error>;

    /// Deletes a template, and leaves its semaphores as they are; whether there was one.
    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error>;

    /// Templates, in byte order of their patterns.
    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error>;

    /// Semaphores that `template` made and that seem to differ from it in their capacity, without having been resized by
    /// hand; and those that seem idle by the store's clock. At most `limit` of each, found by indexes. Each is looked at
    /// again, under its lock, by [`Command::Follow`](crate::Command::Follow).
    async fn to_follow(&self, template: &Template, limit: u32)
    -> Result<Vec<SemaphoreName>, Error>;
}
