//! Creating and resizing semaphores.

use std::future::IntoFuture;
use std::pin::Pin;

use lockhouse_core::{Capacity, Command, Invalid, Note, Owner, SemaphoreName};

use crate::{Error, Lockhouse, SemaphoreStatus};

/// A definition of a semaphore, done by awaiting it; see [`Lockhouse::define`].
#[derive(Debug)]
#[must_use = "nothing is defined until this is awaited"]
pub struct Define {
    lockhouse: Lockhouse,
    name: String,
    capacity: i128,
    must_exist: bool,
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
            changed_by: None,
            note: None,
        }
    }

    /// Refuse with `unknown_semaphore` if there is none, instead of creating it.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
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
    /// `invalid_request`, `unknown_semaphore` (only with [`must_exist`](Define::must_exist)),
    /// `store_unavailable`.
    pub async fn send(self) -> Result<(SemaphoreStatus, bool), Error> {
        let command = self.command()?;
        self.lockhouse.service().define(command).await
    }

    fn command(&self) -> Result<Command, Invalid> {
        Ok(Command::Define {
            name: SemaphoreName::parse(&self.name)?,
            capacity: Capacity::new(self.capacity)?,
            must_exist: self.must_exist,
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

/// Who changes a capacity follows the rule of owners, under its own field's name.
fn changed_by(text: &str) -> Result<Owner, Invalid> {
    Owner::parse(text).map_err(|invalid| invalid.on("changed_by"))
}
