//! Creating and resizing semaphores.

use std::future::IntoFuture;
use std::pin::Pin;

use lockhouse_core::{Capacity, Definition, Invalid, Note, Owner, SemaphoreName};

use crate::{Error, Lockhouse, SemaphoreStatus};

/// A definition of a semaphore, done by awaiting it; see [`Lockhouse::define`].
#[derive(Debug)]
#[must_use = "nothing is defined until this is awaited"]
pub struct Define {
    lockhouse: Lockhouse,
    name: String,
    capacity: i128,
    must_exist: bool,
    as_it_is: bool,
    expected: Option<i128>,
    changed_by: Option<String>,
    note: Option<String>,
}

impl Define {
    pub(crate) fn new(lockhouse: &Lockhouse, name: &str, capacity: i128) -> Self {
        Self {
            lockhouse: lockhouse.clone(),
            name: name.to_owned(),
            capacity,
            must_exist: false,
            as_it_is: false,
            expected: None,
            changed_by: None,
            note: None,
        }
    }

    /// Refuse with `unknown_semaphore` if there is none, instead of creating it.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Refuse with `capacity_changed` if there is one with another capacity, instead of resizing it. So
    /// of two who create it at once with two capacities, one is told.
    pub fn as_it_is(mut self) -> Self {
        self.as_it_is = true;
        self
    }

    /// Refuse with `capacity_changed` unless this is the capacity now, or the new one is already.
    /// So of two who change it from the same value, one is told to look again.
    pub fn expected(mut self, capacity: impl Into<i128>) -> Self {
        self.expected = Some(capacity.into());
        self
    }

    /// Who changes the capacity, for its history.
    pub fn changed_by(mut self, who: impl Into<String>) -> Self {
        self.changed_by = Some(who.into());
        self
    }

    /// Why the capacity is changed, for its history.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Does it; also says whether the semaphore was created.
    ///
    /// # Errors
    /// `invalid_request`, `unknown_semaphore` (only with [`must_exist`](Define::must_exist) or
    /// [`expected`](Define::expected)), `capacity_changed` (only with [`as_it_is`](Define::as_it_is) or
    /// [`expected`](Define::expected)), `store_unavailable`.
    pub async fn send(self) -> Result<(SemaphoreStatus, bool), Error> {
        let definition = self.definition()?;
        self.lockhouse.backend().define(definition).await
    }

    fn definition(&self) -> Result<Definition, Invalid> {
        Ok(Definition {
            name: SemaphoreName::parse(&self.name)?,
            capacity: Capacity::new(self.capacity)?,
            must_exist: self.must_exist,
            as_it_is: self.as_it_is,
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

/// An expected capacity has the bounds of one, under its own field's name.
fn expected(capacity: i128) -> Result<Capacity, Invalid> {
    Capacity::new(capacity).map_err(|invalid| invalid.on("expected_capacity"))
}

/// Who changes a capacity follows the rule of owners, under its own field's name.
fn changed_by(text: &str) -> Result<Owner, Invalid> {
    Owner::parse(text).map_err(|invalid| invalid.on("changed_by"))
}
