//! What a [`Lockhouse`] lists, page by page.

use lockhouse_core::store::{Cursor, Held, Holders, Waiter};
use lockhouse_core::{NamePrefix, Owner, SemaphoreName};

use crate::client::page;
use crate::{Error, Lockhouse, SemaphoreStatus};

impl Lockhouse {
    /// Semaphores in byte order of their names: at most `limit` (1 to 1000) of those after
    /// `after`.
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`.
    pub async fn semaphores(
        &self,
        after: Option<&SemaphoreName>,
        limit: u32,
    ) -> Result<Vec<SemaphoreStatus>, Error> {
        self.backend().semaphores(None, &page(after, limit)?).await
    }

    /// The same of the semaphores whose names begin with `prefix`.
    ///
    /// # Errors
    /// `invalid_request`, `store_unavailable`.
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

    /// Live requests that hold permits of `on`, or of any semaphore: a page of at most `limit` (1 to 1000), from where
    /// the page before ended.
    ///
    /// They come in an order of the store's own, by which a page costs what it holds: those of one semaphore from the
    /// oldest on, after those that hold permits of others too. What is live throughout a walk over all pages is on exactly
    /// one of them. A page may have fewer than `limit`, even none, though more follow: go on until `next` is none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let mut after = None;
    /// loop {
    ///     let page = lockhouse.holders(None, after, 100).await?;
    ///     for request in page.requests {
    ///         println!("{}", request.external_id);
    ///     }
    ///     match page.next {
    ///         None => break,
    ///         next => after = next,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `unknown_semaphore`, `invalid_request`, `store_unavailable`; `overloaded` where too many list at once.
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

    /// The live requests of `owner`, of `on` or of any semaphore, page by page as by [`holders`](Lockhouse::holders).
    ///
    /// # Errors
    /// `unknown_semaphore`, `invalid_request`, `store_unavailable`; `overloaded` where too many list at once.
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

    /// Who waits for `name`, in the order of the line, at all servers and programs that use the store: the first 200
    /// waiters of each.
    ///
    /// Those of this process, or of the server, are as they are now. Others are shown once they have waited for a second, and
    /// up to 5 s late. The waiters of a process that died are shown for up to 15 s.
    ///
    /// # Errors
    /// `unknown_semaphore`, `invalid_request`, `store_unavailable`.
    pub async fn waiting(&self, name: impl AsRef<str>) -> Result<Vec<Waiter>, Error> {
        self.backend().waiting(&SemaphoreName::parse(name)?).await
    }
}
