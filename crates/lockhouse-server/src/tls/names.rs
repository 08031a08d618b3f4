//! The names in a caller's certificate.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The DNS names and URIs of a verified certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateNames(Arc<[String]>);

impl CertificateNames {
    /// The names in `certificate`. `None` if it has no such names.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let names = certificate.valid_dns_names();
        let names: Arc<[_]> = names
            .chain(certificate.valid_uri_names())
            .map(str::to_owned)
            .collect();
        (!names.is_empty()).then_some(Self(names))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}
