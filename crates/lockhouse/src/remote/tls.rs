//! TLS by rustls on ring, with the machine's trusted certificates. It installs no provider for the
//! whole process: that choice is the program's.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lockhouse_core::store::{Error, Kind};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, InvalidMessage, RootCertStore, WantsVerifier,
};
use rustls_platform_verifier::Verifier;

/// The TLS configuration for `https://`, or an empty one for `http://`. The latter must work on a
/// machine without trusted certificates, such as a small container.
///
/// With a `ca_file`, only the certificates in it are trusted.
pub(super) fn config(is_encrypted: bool, ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = builder(Arc::clone(&provider))?;
    if !is_encrypted {
        let trusts_nobody = RootCertStore::empty();
        return Ok(builder
            .with_root_certificates(trusts_nobody)
            .with_no_client_auth());
    }
    if let Some(file) = ca_file {
        return Ok(builder
            .with_root_certificates(roots(file)?)
            .with_no_client_auth());
    }
    let none = "the machine has no trusted certificates; install its ca-certificates, or name a CA \
                (--ca-file, LOCKHOUSE_CA_FILE, ConnectOptions::ca_file)";
    let verifier = Verifier::new(provider).map_err(|error| unusable(none, error))?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// Advice for an operator on a failed connection, if its TLS is the cause.
pub(super) fn advice_on(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    match error.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InvalidCertificate(error)) => Some(advice_on_certificate(error)),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            Some("it does not speak TLS; write http:// if it has none")
        }
        Some(_) => None,
        // The source of an I/O error is not the error that it wraps, but that error's source.
        None => match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => advice_on(wrapped),
            None => error.source().and_then(advice_on),
        },
    }
}

fn advice_on_certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another host; write a host that the certificate names into the URL"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; renew it"
        }
        _ => {
            "its certificate is not trusted; name the CA that signed it (--ca-file, \
             LOCKHOUSE_CA_FILE, ConnectOptions::ca_file)"
        }
    }
}

fn roots(file: &Path) -> Result<RootCertStore, Error> {
    let unusable = |problem: String| {
        let what = format!(
            "the certificates in {} can't be used: {problem}",
            file.display()
        );
        Error::new(Kind::Configuration, what)
    };
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))?;
    for certificate in read {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| unusable(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(unusable("there are none".into())),
        false => Ok(roots),
    }
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS can't be set up", error))
}

fn unusable(context: &str, error: rustls::Error) -> Error {
    Error::new(Kind::Configuration, context).caused_by(error)
}
