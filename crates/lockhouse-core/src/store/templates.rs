//! Templates, as a store keeps them.

use std::fmt;

use async_trait::async_trait;

use super::{Error, Page};
use crate::{Pattern, SemaphoreName, Template, TemplateDefinition};

/// Keeps templates. [`decide`](crate::decide()) applies them to semaphores; it gets all of them if
/// the batch [asks for them](crate::Footprint::templates).
///
/// # Contract
/// - Each call is one transaction, ends within 10 s, and is safe to repeat.
/// - Reading waits for no lock, neither here nor in a batch (P13). So a batch that read a template before
///   it changed may create a semaphore with the old capacity. Once that batch has committed,
///   [`to_follow`](Templates::to_follow) finds the semaphore.
#[async_trait]
pub trait Templates: fmt::Debug + Send + Sync + 'static {
    /// Creates or changes a template. Returns it, and whether this call created it.
    async fn define_template(
        &self,
        definition: &TemplateDefinition,
    ) -> Result<(Template, bool), Error>;

    /// Deletes a template, and leaves its semaphores as they are. Returns whether there was one.
    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error>;

    /// Templates, in byte order of their patterns.
    async fn templates(&self, page: &Page<Pattern>) -> Result<Vec<Template>, Error>;

    /// Semaphores that `template` created and that seem to need an update: their capacity differs
    /// from the template's although nobody resized them by hand, or they seem idle by the store's
    /// clock. At most `limit` of each, found by indexes.
    /// [`Command::Follow`](crate::Command::Follow) checks each again under its lock.
    async fn to_follow(&self, template: &Template, limit: u32)
    -> Result<Vec<SemaphoreName>, Error>;
}
