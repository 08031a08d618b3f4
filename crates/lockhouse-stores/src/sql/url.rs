//! Parses the parts of URLs that all servers share.

use std::fs;

use lockhouse_core::store::Error;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::driver::Driver;
use super::hosts::Hosts;
use crate::misconfigured::configuration;
use crate::refuse_misplaced;

/// The default for the most connections.
const CONNECTIONS: usize = 16;

/// The location of a database, and how to connect to it.
#[derive(Debug)]
pub(crate) struct Location<D: Driver> {
    pub(crate) hosts: Hosts<D>,
    /// The most connections.
    pub(crate) connections: usize,
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

/// The content of a PEM file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pem {
    /// Certificates of authorities.
    Authorities,
    Certificate,
    Key,
}

/// Checks that the files that `url` names by its parameters `keys` have what they are for.
///
/// The driver reads them when it connects. Its error for a missing file looks like that of a missing
/// server, and to a file without a certificate it says that it trusts nobody.
pub(crate) fn check_files(url: &url::Url, keys: &[&str], pem: Pem) -> Result<(), Error> {
    for (key, file) in url.query_pairs() {
        if keys.contains(&&*key) {
            check_file(&key, &file, pem)?;
        }
    }
    Ok(())
}

/// Checks the `file` that the parameter or variable `key` names.
pub(crate) fn check_file(key: &str, file: &str, pem: Pem) -> Result<(), Error> {
    let text = fs::read(file).map_err(|error| {
        configuration(format!("the file of {key} can't be read")).caused_by(error)
    })?;
    let problem = match pem {
        Pem::Authorities | Pem::Certificate => problem_with_certificates(&text, pem),
        Pem::Key => match PrivateKeyDer::from_pem_slice(&text) {
            Ok(_) => None,
            Err(_) => Some("has no private key in PEM"),
        },
    };
    match problem {
        Some(problem) => Err(configuration(format!("the file of {key} {problem}"))),
        None => Ok(()),
    }
}

fn problem_with_certificates(text: &[u8], pem: Pem) -> Option<&'static str> {
    let (mut roots, mut is_empty) = (RootCertStore::empty(), true);
    for certificate in CertificateDer::pem_slice_iter(text) {
        is_empty = false;
        let is_good = match (certificate, pem) {
            (Ok(certificate), Pem::Authorities) => roots.add(certificate).is_ok(),
            (certificate, _) => certificate.is_ok(),
        };
        if !is_good {
            return Some("has a certificate that is damaged");
        }
    }
    is_empty.then_some("has no certificate in PEM")
}
