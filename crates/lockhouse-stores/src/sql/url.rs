//! Where a database is, as its URL says.

use std::fmt;

use lockhouse_core::store::{Error, Kind};
use sqlx::Connection;

use super::dialect::{ConnectionOf, Driver};

/// How many connections there are at most, unless the URL says.
const CONNECTIONS: usize = 16;

/// Where a database is, and how to use it.
pub(crate) struct Location<D: Driver> {
    /// For the driver. Has the password in it.
    pub(crate) driver: <ConnectionOf<D> as Connection>::Options,
    /// For messages: `HOST:PORT/DATABASE`, without user and password.
    pub(crate) display: String,
    /// At most so many connections.
    pub(crate) connections: usize,
    /// Whether to lock what is loaded. Only tests say no.
    pub(crate) locks: bool,
}

impl<D: Driver> fmt::Debug for Location<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display)
    }
}

/// The parameters of a URL that are the same for all kinds of servers.
pub(crate) struct Parameters {
    pub(crate) connections: usize,
    pub(crate) locks: bool,
}

impl Parameters {
    /// Reads the parameters of `url`. Those that the driver reads are in `drivers`; `takes` names
    /// all that there are.
    pub(crate) fn of(url: &url::Url, drivers: &[&str], takes: &str) -> Result<Self, Error> {
        let mut connections = CONNECTIONS;
        #[cfg_attr(not(feature = "sabotage"), expect(unused_mut))]
        let mut locks = true;
        for (key, value) in url.query_pairs() {
            match &*key {
                "connections" => connections = parse_connections(&value)?,
                #[cfg(feature = "sabotage")]
                "sabotage" if value == "no_lock" => locks = false,
                driver if drivers.contains(&driver) => {}
                _ => {
                    return Err(configuration(format!(
                        "the URL has \"{key}\", and takes {takes}"
                    )));
                }
            }
        }
        Ok(Self { connections, locks })
    }
}

fn parse_connections(value: &str) -> Result<usize, Error> {
    let connections = value.parse().ok();
    connections
        .filter(|connections| (1..=1000).contains(connections))
        .ok_or_else(|| {
            configuration(format!(
                "connections is \"{value}\", it goes from 1 to 1000"
            ))
        })
}

/// An error of the URL.
pub(crate) fn configuration(context: impl Into<String>) -> Error {
    Error::new(Kind::Configuration, context)
}
