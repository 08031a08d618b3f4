//! The promises that can be broken, and their descriptions.

use std::fmt;

use serde::Serialize;

use super::Operation;
use super::rows::PermitRow;

/// A promise by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[expect(missing_docs, reason = "their words are those of `words`")]
pub enum Promise {
    P1,
    P2,
    P3,
    P4,
    P5,
    P6,
    P7,
    P8,
    P9,
    P10,
    P11,
}

impl Promise {
    /// A description of the broken promise.
    pub const fn words(self) -> &'static str {
        match self {
            Promise::P1 => "more permits are held than there are",
            Promise::P2 => "the counter is not the sum of what is held",
            Promise::P3 => "a request ends twice, or by nobody",
            Promise::P4 => "a request goes on after its end",
            Promise::P5 => "one ask is granted twice",
            Promise::P6 => "an ask is granted by halves, or fails by a deadlock",
            Promise::P7 => "fences do not rise",
            Promise::P8 => "expiry goes by another clock than the store's",
            Promise::P9 => "a lost answer is not found again",
            Promise::P10 => "permits are gone for good",
            Promise::P11 => "a waiter is overtaken",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A broken promise, with its evidence.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The broken promise.
    pub promise: Promise,
    /// How it was broken.
    pub what: String,
    /// The operations that show it.
    pub operations: Vec<Operation>,
    /// The rows that show it.
    pub rows: Vec<PermitRow>,
}

impl Violation {
    pub(crate) fn new(promise: Promise, what: impl Into<String>) -> Self {
        Self {
            promise,
            what: what.into(),
            operations: Vec::new(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn by<'a>(mut self, operations: impl IntoIterator<Item = &'a Operation>) -> Self {
        self.operations.extend(operations.into_iter().cloned());
        self
    }

    pub(crate) fn at<'a>(mut self, rows: impl IntoIterator<Item = &'a PermitRow>) -> Self {
        self.rows.extend(rows.into_iter().cloned());
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)?;
        for operation in &self.operations {
            write!(f, "\n  {operation}")?;
        }
        for row in &self.rows {
            write!(f, "\n  {row:?}")?;
        }
        Ok(())
    }
}
