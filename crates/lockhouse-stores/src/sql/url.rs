//! Parses the parts of URLs that all servers share.

use std::fmt;
use std::fs::File;

use lockhouse_core::store::{Error, Kind};
use sqlx::Connection;

use super::dialect::{ConnectionOf, Driver};
use crate::refuse_misplaced;

/// The default for the most connections.
const CONNECTIONS: usize = 16;

/// The location of a database, and how to connect to it.
pub(crate) struct Location<D: Driver> {
    /// For the driver. Contains the password.
    pub(crate) driver: <ConnectionOf<D> as Connection>::Options,
    /// For messages: `HOST:PORT/DATABASE`, without user and password.
    pub(crate) display: String,
    /// The most connections.
    pub(crate) connections: usize,
}

impl<D: Driver> fmt::Debug for Location<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display)
    }
}

/// `text` as a URL.
pub(crate) fn parsed(text: &str) -> Result<url::Url, Error> {
    url::Url::parse(text).map_err(|error| configuration("the URL is malformed").caused_by(error))
}

/// How many connections `url` allows. It may hold a password nowhere but before its host. The parameters that
/// the driver reads are in `drivers`; `takes` names all that there are.
pub(crate) fn connections(url: &url::Url, drivers: &[&str], takes: &str) -> Result<usize, Error> {
    refuse_misplaced(url.as_str())?;
    let mut connections = CONNECTIONS;
    for (key, value) in url.query_pairs() {
        match &*key {
            "connections" => connections = parse_connections(&value)?,
            driver if drivers.contains(&driver) => {}
            _ => {
                // The message does not repeat the parameter, which may be part of a password.
                let problem = format!("the URL has a parameter that is not one of {takes}");
                return Err(configuration(problem));
            }
        }
    }
    Ok(connections)
}

fn parse_connections(value: &str) -> Result<usize, Error> {
    let connections = value.parse().ok();
    connections
        .filter(|connections| (1..=1000).contains(connections))
        .ok_or_else(|| configuration("connections goes from 1 to 1000"))
}

/// Whether `url` has one of the parameters `keys`.
pub(crate) fn names_a(url: &url::Url, keys: &[&str]) -> bool {
    url.query_pairs().any(|(key, _)| keys.contains(&&*key))
}

/// Checks that the files that `url` names by its parameters `keys` can be read.
///
/// The driver reads them when it connects, and its error for a missing file looks like that of a
/// missing server.
pub(crate) fn check_files(url: &url::Url, keys: &[&str]) -> Result<(), Error> {
    for (key, file) in url.query_pairs() {
        if keys.contains(&&*key) {
            File::open(&*file).map_err(|error| {
                configuration(format!("the file of {key} can't be read")).caused_by(error)
            })?;
        }
    }
    Ok(())
}

/// An error of the URL.
pub(crate) fn configuration(context: impl Into<String>) -> Error {
    Error::new(Kind::Configuration, context)
}
