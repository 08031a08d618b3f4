//! Templates: semaphores that are created on first use.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use lockhouse_core::{Capacity, Idle, Invalid, Pattern, Template, TemplateDefinition};

use crate::client::page;
use crate::{Error, Lockhouse};

/// A definition of a template. Awaiting it sends it; see [`Lockhouse::template`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// use lockhouse::{DefineTemplate, Template};
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let define: DefineTemplate = lockhouse.template("customer/*", 2).idle_ms(60_000);
/// let (template, created): (Template, bool) = define.send().await?;
/// assert!(created && template.capacity.value() == 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "no template is set until this is awaited"]
pub struct DefineTemplate {
    lockhouse: Lockhouse,
    pattern: String,
    capacity: i128,
    idle_ms: Option<i128>,
}

impl DefineTemplate {
    /// How long an unused semaphore of the template is kept: 1 ms to 366 days. The default is 7 days. A semaphore is unused
    /// while it has no holder, no waiter and no new grant. If its name is used again, its fences go on rising.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let day = std::time::Duration::from_secs(24 * 60 * 60);
    /// let template = lockhouse.template("customer/*", 2).idle(day).await?;
    /// assert_eq!(template.idle.as_duration(), day);
    /// # Ok(())
    /// # }
    /// ```
    pub fn idle(self, idle: Duration) -> Self {
        self.idle_ms(i128::try_from(idle.as_millis()).unwrap_or(i128::MAX))
    }

    /// [`idle`](DefineTemplate::idle) in milliseconds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let template = lockhouse.template("customer/*", 2).idle_ms(60_000).await?;
    /// assert_eq!(template.idle, lockhouse::Idle::from_ms(60_000)?);
    /// assert_eq!(template.idle.as_ms(), 60_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn idle_ms(mut self, ms: impl Into<i128>) -> Self {
        self.idle_ms = Some(ms.into());
        self
    }

    /// Sends the definition. Returns the template, and whether this call created it.
    ///
    /// # Errors
    /// [`Error::Invalid`], also if there are 1,000 templates already; [`Error::Store`].
    pub async fn send(self) -> Result<(Template, bool), Error> {
        let definition = self.definition()?;
        self.lockhouse.backend().define_template(definition).await
    }

    fn definition(&self) -> Result<TemplateDefinition, Invalid> {
        Ok(TemplateDefinition {
            pattern: Pattern::parse(&self.pattern)?,
            capacity: Capacity::new(self.capacity)?,
            idle: match self.idle_ms {
                Some(ms) => Idle::from_ms(ms)?,
                None => Idle::default(),
            },
        })
    }
}

impl IntoFuture for DefineTemplate {
    type Output = Result<Template, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.send().await?.0) })
    }
}

impl Lockhouse {
    /// Sets a template. The `pattern` is a prefix and `*`. Every name that it matches becomes a semaphore of `capacity` when
    /// it is first used. If several templates match, the one with the longest prefix applies. Await the
    /// [`DefineTemplate`], or first set its idle time.
    ///
    /// An acquire on such a name creates the semaphore in the commit that grants. Setting the template again with another
    /// capacity resizes its semaphores in batches, with an entry in the history of each. Semaphores that were
    /// [resized](crate::Semaphore::resize) by hand keep their capacity.
    ///
    /// A waiter that lacks room on a semaphore of a template reserves nothing on its other semaphores. So "2 for each
    /// customer, 10 in all" is one request, and no customer blocks the others:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::Origin;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.template("customer/*", 2).await?;
    /// lockhouse.define("all", 10).await?;
    ///
    /// let request = lockhouse.request().permits("customer/acme", 1).permits("all", 1);
    /// let permit = request.acquire().await?;
    /// let acme = lockhouse.status("customer/acme").await?.semaphore;
    /// assert!(acme.origin.is_some_and(|origin: Origin| origin.template.as_str() == "customer/*"));
    /// permit.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn template(&self, pattern: impl AsRef<str>, capacity: impl Into<i128>) -> DefineTemplate {
        DefineTemplate {
            lockhouse: self.clone(),
            pattern: pattern.as_ref().to_owned(),
            capacity: capacity.into(),
            idle_ms: None,
        }
    }

    /// Templates in byte order of their patterns: at most `limit` (1 to 1000), from the one after `after` on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.template("customer/*", 2).await?;
    /// let templates = lockhouse.templates(None, 100).await?;
    /// assert_eq!(templates[0].pattern.as_str(), "customer/*");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn templates(
        &self,
        after: Option<&Pattern>,
        limit: u32,
    ) -> Result<Vec<Template>, Error> {
        self.backend().templates(&page(after, limit)?).await
    }

    /// Deletes a template. Returns whether there was one. Its semaphores keep their capacity, and are no longer deleted when
    /// they are unused.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.template("customer/*", 2).await?;
    /// assert!(lockhouse.delete_template("customer/*").await?);
    /// assert!(!lockhouse.delete_template("customer/*").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn delete_template(&self, pattern: impl AsRef<str>) -> Result<bool, Error> {
        let pattern = Pattern::parse(pattern)?;
        self.backend().delete_template(&pattern).await
    }
}
