//! Creating and resizing semaphores.

use std::future::IntoFuture;
use std::pin::Pin;

use lockhouse_core::{Capacity, Definition, Invalid, Note, Owner, SemaphoreName};

use crate::{Error, Lockhouse, SemaphoreStatus};

/// A definition of a semaphore. Awaiting it sends it; see [`Lockhouse::define`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// lockhouse.define("backup-slots", 10).if_missing().await?;
/// let slow_disk = lockhouse.define("backup-slots", 4).must_exist().expected(10);
/// let (status, created) = slow_disk.changed_by("ann").note("slow disk").send().await?;
/// assert!(!created && status.semaphore.capacity.value() == 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is defined until this is awaited"]
pub struct Define {
    lockhouse: Lockhouse,
    name: String,
    capacity: i128,
    must_exist: bool,
    slots: Option<bool>,
    if_missing: bool,
    expected: Option<i128>,
    changed_by: Option<String>,
    note: Option<String>,
}

impl Lockhouse {
    /// Creates the semaphore `name` with `capacity`, or resizes it if it exists. Await the [`Define`], or first add
    /// conditions and a note to it.
    ///
    /// A capacity below the permits in use revokes nothing. Nothing is granted until there is room again. A semaphore of
    /// capacity 0 is closed.
    ///
    /// # Errors
    /// See [`Define::send`].
    pub fn define(&self, name: impl AsRef<str>, capacity: impl Into<i128>) -> Define {
        Define::new(self, name.as_ref(), capacity.into())
    }
}

impl Define {
    pub(crate) fn new(lockhouse: &Lockhouse, name: &str, capacity: i128) -> Self {
        Self {
            lockhouse: lockhouse.clone(),
            name: name.to_owned(),
            capacity,
            must_exist: false,
            slots: None,
            if_missing: false,
            expected: None,
            changed_by: None,
            note: None,
        }
    }

    /// Refuses with [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore) if the semaphore does not exist, instead of
    /// creating it.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Gives the permits slots: indexes from 0 to the capacity − 1, which is then at most 4,096. A permit of a count gets
    /// that many of the lowest free slots, and keeps them until it ends: see [`Permit::slots`](crate::Permit::slots).
    ///
    /// Slots can be turned on or off only while nothing is held. Without this and
    /// [`without_slots`](Define::without_slots), an existing semaphore stays unchanged.
    pub fn slots(mut self) -> Self {
        self.slots = Some(true);
        self
    }

    /// Takes the slots away, if the semaphore has them and nothing is held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("gpu", 4).slots().await?;
    /// let gpu = lockhouse.define("gpu", 4).without_slots().await?;
    /// assert!(!gpu.semaphore.is_slotted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn without_slots(mut self) -> Self {
        self.slots = Some(false);
        self
    }

    /// Refuses with [`CapacityChanged`](crate::Refusal::CapacityChanged) or
    /// [`SlotsDiffer`](crate::Refusal::SlotsDiffer) if the semaphore exists with another capacity or differs in having
    /// slots, instead of changing it. Of two callers that create it with different capacities at once, one is refused.
    pub fn if_missing(mut self) -> Self {
        self.if_missing = true;
        self
    }

    /// Refuses with [`CapacityChanged`](crate::Refusal::CapacityChanged) unless the semaphore has this capacity, or has
    /// the new one already. Of two callers that resize it from the same capacity, one is refused and reads it again.
    pub fn expected(mut self, capacity: impl Into<i128>) -> Self {
        self.expected = Some(capacity.into());
        self
    }

    /// Records who changes the capacity, in its [history](Lockhouse::history).
    pub fn changed_by(mut self, who: impl Into<String>) -> Self {
        self.changed_by = Some(who.into());
        self
    }

    /// Records why the capacity is changed, in its [history](Lockhouse::history).
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sends the definition. Returns the semaphore, and whether this call created it.
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore) with [`must_exist`](Define::must_exist) or
    /// [`expected`](Define::expected); [`CapacityChanged`](crate::Refusal::CapacityChanged) with
    /// [`if_missing`](Define::if_missing) or [`expected`](Define::expected); [`SlotsDiffer`](crate::Refusal::SlotsDiffer)
    /// with [`if_missing`](Define::if_missing); [`SemaphoreInUse`](crate::Refusal::SemaphoreInUse) where slots would be
    /// turned on or off; [`TooManySlots`](crate::Refusal::TooManySlots); [`Error::Invalid`], [`Error::Store`].
    pub async fn send(self) -> Result<(SemaphoreStatus, bool), Error> {
        let definition = self.definition()?;
        self.lockhouse.backend().define(definition).await
    }

    fn definition(&self) -> Result<Definition, Invalid> {
        Ok(Definition {
            name: SemaphoreName::parse(&self.name)?,
            capacity: Capacity::new(self.capacity)?,
            must_exist: self.must_exist,
            slots: self.slots,
            if_missing: self.if_missing,
            expected: self.expected.map(expected).transpose()?,
            changed_by: self.changed_by.as_deref().map(changed_by).transpose()?,
            note: self.note.as_deref().map(Note::parse).transpose()?,
        })
    }
}

impl IntoFuture for Define {
    type Output = Result<SemaphoreStatus, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.send().await?.0) })
    }
}

/// An expected capacity has the bounds of a capacity. An error names the field `expected_capacity`.
fn expected(capacity: i128) -> Result<Capacity, Invalid> {
    Capacity::new(capacity).map_err(|invalid| invalid.on("expected_capacity"))
}

/// `changed_by` follows the rule of owners. An error names the field `changed_by`.
fn changed_by(text: &str) -> Result<Owner, Invalid> {
    Owner::parse(text).map_err(|invalid| invalid.on("changed_by"))
}
