//! A caller's certificate.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::time::sleep;
use webpki::EndEntityCert;

/// How often a certificate is looked at again.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

/// The certificate that a caller has shown, with the intermediate ones.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    names: CertificateNames,
    chain: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The DNS names and URIs of a verified certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateNames(Arc<[String]>);

impl Certificate {
    /// The certificate at the begin of `chain`, which `verifier` has verified. `None` if it has no names.
    pub(super) fn of(
        chain: &[CertificateDer<'_>],
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> Option<Self> {
        Some(Self {
            names: CertificateNames::of(chain.first()?)?,
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
            verifier,
        })
    }

    pub(crate) fn names(&self) -> &CertificateNames {
        &self.names
    }

    /// Resolves within seconds of the moment when the certificate, or one above it, expires.
    pub(crate) async fn expired(&self) {
        while self.is_valid() {
            sleep(LOOKED_AT_EVERY).await;
        }
    }

    fn is_valid(&self) -> bool {
        let verified = self.chain.split_first().map(|(own, above)| {
            self.verifier
                .verify_client_cert(own, above, UnixTime::now())
        });
        matches!(verified, Some(Ok(_)))
    }
}

impl CertificateNames {
    /// The names in `certificate`. `None` if it has no such names.
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
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
