//! The calls of an operator on a store: its schema, its upkeep, its verification, its epoch, its
//! limits.

use lockhouse_core::{Epoch, Finding, Invalid, store};

use crate::engine::Engine;
use crate::upkeep::{Maintaining, Swept, Upkeep, UpkeepState};
use crate::{Error, Lockhouse, Raised};

impl Lockhouse {
    /// Brings a database's schema up to date. Any number of processes may do so at once. On a server, which migrates its
    /// own database, this only asks whether it is ready.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.migrate().await?; // `connect` has done so; it is safe to repeat
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn migrate(&self) -> Result<(), Error> {
        self.backend().migrate().await
    }

    /// Does the upkeep of the store in the background until the returned [`Maintaining`] is dropped: ends expired
    /// requests, and deletes old rows. `lockhouse serve` does so by itself. Any number of processes may do so at once;
    /// one of them works at a time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::Upkeep;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let maintaining = lockhouse.maintain(Upkeep::default())?;
    /// println!("upkeep: {}", lockhouse.upkeep_state());
    /// maintaining.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] on a server's URL: the server does the upkeep.
    pub fn maintain(&self, upkeep: Upkeep) -> Result<Maintaining, Error> {
        self.upkeeper()?;
        Ok(upkeep.begin(self.clone()))
    }

    /// Does each task of the upkeep once, and returns what it did. It does not check owners, since a check takes two
    /// rounds: [`maintain`](Lockhouse::maintain) does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let swept = lockhouse.sweep(&lockhouse::Upkeep::default()).await?;
    /// println!("{} requests had expired", swept.lapsed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Invalid`] on a server's URL.
    pub async fn sweep(&self, upkeep: &Upkeep) -> Result<Swept, Error> {
        upkeep.once(self.upkeeper()?).await
    }

    /// The state of the upkeep that [`maintain`](Lockhouse::maintain) began in this process.
    pub fn upkeep_state(&self) -> UpkeepState {
        self.engine()
            .map_or(UpkeepState::Off, |engine| engine.upkeep().state())
    }

    /// How often this process has tried a call to the store again, by the kind of the error that was the reason. A client
    /// of a server has none: the server tries again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// for (kind, retries) in lockhouse.store_retries() {
    ///     println!("{kind:?}: {retries}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn store_retries(&self) -> Vec<(store::Kind, u64)> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.retries().collect())
    }

    /// Recounts all permits in one consistent read, and returns what does not match: P1, P2, P3, P7 and P10.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::Finding;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let findings: Vec<Finding> = lockhouse.verify().await?;
    /// for finding in &findings {
    ///     eprintln!("{finding}");
    /// }
    /// lockhouse.repair(&findings).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Invalid`] on a server's URL.
    pub async fn verify(&self) -> Result<Vec<Finding>, Error> {
        self.upkeeper()?.verify().await
    }

    /// Repairs the counters that `findings` name. Each is counted again and repaired in one transaction. Returns the
    /// semaphores as they were before.
    ///
    /// [`verify`](Lockhouse::verify) shows it.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Invalid`] on a server's URL.
    pub async fn repair(
        &self,
        findings: &[Finding],
    ) -> Result<Vec<lockhouse_core::SemaphoreRow>, Error> {
        self.upkeeper()?.repair(findings).await
    }

    /// Raises the fences of all semaphores to the epoch `to`, or to the one after the highest epoch that there is. This
    /// includes deleted semaphores and those that are defined later. Use it on a database that has lost commits, such as
    /// after a failover: later grants then have greater fences than the grants that were lost (P7).
    ///
    /// It lowers no fence. Raising to the same epoch again goes on where the first call ended. Requests that are held
    /// keep their old fences. Grants go on meanwhile.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let raised = lockhouse.raise_epoch(None).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// assert!(permit.fence("backup-slots") > raised.new.fence());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are fences beyond `to`, if no epoch is left, and on a server's URL; [`Error::Store`],
    /// after which some semaphores may have been raised.
    pub async fn raise_epoch(&self, to: Option<Epoch>) -> Result<Raised, Error> {
        self.upkeeper()?.raise_epoch(to).await
    }

    /// Limits the calls of this client and its clones that wait for room to `most`. Further calls fail with
    /// [`Error::Overloaded`]. The default is 10,000. They also fail if the waiting calls take more than 8 KiB each on average; a
    /// semaphore that any call waits for takes about 4 KiB.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.limit_waiters(100)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] on a server's URL: the server has its own limit.
    pub fn limit_waiters(&self, most: usize) -> Result<(), Error> {
        self.upkeeper()?.limit_waiters(most);
        Ok(())
    }

    pub(crate) fn upkeeper(&self) -> Result<&Engine, Error> {
        let elsewhere = || Invalid::new("url", "is a server's; do this where its database is");
        Ok(self.engine().ok_or_else(elsewhere)?)
    }

    /// Checks that the store answers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.ready().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn ready(&self) -> Result<(), Error> {
        self.backend().ready().await
    }
}
