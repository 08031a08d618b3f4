//! Listings, page by page.

use lockhouse_core::store::{Cursor, Held, Holders, Waiter};
use lockhouse_core::{NamePrefix, Owner, SemaphoreName};

use crate::client::page;
use crate::{Error, Lockhouse, SemaphoreStatus};

impl Lockhouse {
    /// Semaphores in byte order of their names: at most `limit` (1 to 1000), from the one after `after` on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 4).await?;
    /// let mut after = None;
    /// loop {
    ///     let page = lockhouse.semaphores(after.as_ref(), 100).await?;
    ///     for status in &page {
    ///         println!("{}: {} free", status.semaphore.name, status.semaphore.available());
    ///     }
    ///     match page.last() {
    ///         None => break,
    ///         Some(last) => after = Some(last.semaphore.name.clone()),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn semaphores(
        &self,
        after: Option<&SemaphoreName>,
        limit: u32,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        self.backend().semaphores(None, &page(after, limit)?).await
    }

    /// [`semaphores`](Lockhouse::semaphores) whose names begin with `prefix`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("gpu/a", 4).await?;
    /// let page = lockhouse.semaphores_with_prefix("gpu/", None, 100).await?;
    /// assert_eq!(page[0].semaphore.name.as_str(), "gpu/a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Store`].
    pub async fn semaphores_with_prefix(
        &self,
        prefix: impl AsRef<str>,
        after: Option<&SemaphoreName>,
        limit: u32,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        let prefix = NamePrefix::parse(prefix)?;
        let page = page(after, limit)?;
        self.backend().semaphores(Some(&prefix), &page).await
    }

    /// Live requests that hold permits of `on`, or of any semaphore: at most `limit` (1 to 1000), from the end of the
    /// previous page on.
    ///
    /// The store chooses the order, so that the cost of a page does not depend on the other pages. A request that is
    /// live during the whole walk over all pages is on exactly one of them. A page may be shorter than `limit`, even
    /// empty, although more follow: continue until `next` is `None`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::{Cursor, Held};
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let mut after: Option<Cursor> = None;
    /// loop {
    ///     let Held { requests, next } = lockhouse.holders(None, after, 100).await?;
    ///     for request in requests {
    ///         println!("{}", request.external_id);
    ///     }
    ///     match next {
    ///         None => break,
    ///         next => after = next,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Invalid`], [`Error::Store`];
    /// [`Error::Overloaded`] if too many listings run at once.
    pub async fn holders(
        &self,
        on: Option<&SemaphoreName>,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Held, Error> {
        let of = Holders {
            on: on.cloned(),
            owner: None,
        };
        self.backend()
            .holders(&of, &page(after.as_ref(), limit)?)
            .await
    }

    /// The live requests of `owner` that hold permits of `on`, or of any semaphore, page by page as in
    /// [`holders`](Lockhouse::holders).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let owner = "job-7".parse()?;
    /// let held = lockhouse.held_by(&owner, None, None, 100).await?;
    /// assert!(held.requests.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`holders`](Lockhouse::holders).
    pub async fn held_by(
        &self,
        owner: &Owner,
        on: Option<&SemaphoreName>,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Held, Error> {
        let of = Holders {
            on: on.cloned(),
            owner: Some(owner.clone()),
        };
        self.backend()
            .holders(&of, &page(after.as_ref(), limit)?)
            .await
    }

    /// The waiters of `name` at all processes that use the store, in order: the first 200 of each process.
    ///
    /// The waiters of this process, or of the server, are current. Waiters of other processes appear once they have
    /// waited for a second, and up to 5 s late. Waiters of a process that died disappear within 15 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::Waiter;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("gpu", 1).await?;
    /// let waiting: Vec<Waiter> = lockhouse.waiting("gpu").await?;
    /// assert!(waiting.is_sorted_by_key(Waiter::place_us));
    /// for waiter in waiting {
    ///     println!("{} waits since {}", waiter.external_id, waiter.since);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Invalid`], [`Error::Store`].
    pub async fn waiting(&self, name: impl AsRef<str>) -> Result<Vec<Waiter>, Error> {
        self.backend().waiting(&SemaphoreName::parse(name)?).await
    }
}
