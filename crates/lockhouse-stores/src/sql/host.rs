//! A database on one host.

use std::fmt;

use super::driver::{ConnectionOf, Driver};

/// A database on one host.
pub(crate) struct Host<D: Driver> {
    /// For the driver. Contains the password.
    pub(crate) driver: <ConnectionOf<D> as sqlx::Connection>::Options,
    /// For messages: `HOST:PORT/DATABASE`, without user and password.
    pub(crate) display: String,
}

impl<D: Driver> Host<D> {
    /// `HOST:PORT`.
    pub(super) fn address(&self) -> &str {
        let parts = self.display.rsplit_once('/');
        parts.map_or(&*self.display, |(address, _)| address)
    }
}

impl<D: Driver> fmt::Debug for Host<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display)
    }
}
