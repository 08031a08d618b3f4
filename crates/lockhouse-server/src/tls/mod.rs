//! TLS by rustls on ring: the server's certificate, and those of its callers.
//!
//! The files are read again while the server runs, every few seconds and when [`Tls::reload`] is
//! called. A change applies to new connections; open ones go on. Files that cannot be used are
//! reported, and the server goes on with what it has.
//!
//! A connection ends when its caller's certificate expires.

mod certificate;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use certificate::{Certificate, CertificateNames};

use crate::socket::Socket;

/// How often the files are checked.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

/// HTTP/2 if the caller supports it.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The PEM files of the server's certificates.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// The key of the server's certificate.
    pub key: PathBuf,
    /// The authorities that verify callers' certificates. Without it the server asks for no
    /// certificates.
    ///
    /// A caller with a certificate acts as the token whose name is one of the certificate's DNS names or URIs.
    pub client_ca: Option<PathBuf>,
}

/// The server's certificate and key, read from files.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Credentials>);

#[derive(Debug)]
struct Credentials {
    files: TlsFiles,
    config: RwLock<Config>,
    /// The contents in use.
    used: Mutex<Contents>,
}

/// The configuration that the files make.
#[derive(Clone, Debug)]
struct Config {
    server: Arc<ServerConfig>,
    /// Verifies the certificates of callers, if the server asks for any.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads `files`.
    ///
    /// # Errors
    /// The [`io::Error`] of reading a file; [`InvalidData`](io::ErrorKind::InvalidData) if a file contains no certificate or
    /// no private key, or the key is not that of the certificate. The message names the file.
    pub fn load(files: TlsFiles) -> io::Result<Self> {
        let contents = files.read()?;
        let config = RwLock::new(files.config(&contents)?);
        Ok(Self(Arc::new(Credentials {
            files,
            config,
            used: Mutex::new(contents),
        })))
    }

    /// Reads the files again. Returns whether they had changed. Open connections go on.
    ///
    /// # Errors
    /// As [`load`](Tls::load). The server then goes on with what it has.
    pub fn reload(&self) -> io::Result<bool> {
        let contents = self.0.files.read()?;
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        if *used == contents {
            return Ok(false);
        }
        let config = self.0.files.config(&contents)?;
        *used = contents;
        *self
            .0
            .config
            .write()
            .unwrap_or_else(PoisonError::into_inner) = config;
        Ok(true)
    }

    /// Reads the files again at an interval.
    pub(crate) async fn watch(&self) -> ! {
        let mut reported = None;
        loop {
            sleep(LOOKED_AT_EVERY).await;
            let tls = self.clone();
            let reloaded = tokio::task::spawn_blocking(move || tls.reload()).await;
            let Ok(reloaded) = reloaded else { continue };
            if let Ok(true) = reloaded {
                tracing::info!("the certificate files were read again");
            }
            // Once, as long as it stays the same.
            let error = reloaded.err().map(|error| error.to_string());
            if let Some(error) = error.as_ref().filter(|_| error != reported) {
                tracing::error!(%error, "the certificate files cannot be used; the old ones stay");
            }
            reported = error;
        }
    }

    /// The TLS handshake on `socket`. Returns the caller's certificate, if it has shown one.
    pub(crate) async fn accept(
        &self,
        socket: Socket,
    ) -> io::Result<(TlsStream<Socket>, Option<Certificate>)> {
        let Config { server, verifier } = self.config();
        let stream = TlsAcceptor::from(server).accept(socket).await?;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().zip(verifier);
        let certificate = shown.and_then(|(chain, verifier)| Certificate::of(chain, verifier));
        Ok((stream, certificate))
    }

    fn config(&self) -> Config {
        let config = self.0.config.read().unwrap_or_else(PoisonError::into_inner);
        config.clone()
    }
}

impl TlsFiles {
    fn read(&self) -> io::Result<Contents> {
        Ok(Contents {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn config(&self, contents: &Contents) -> io::Result<Config> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let verifier = match (&self.client_ca, &contents.client_ca) {
            (Some(file), Some(pem)) => Some(verifier(pem, file, provider)?),
            _ => None,
        };
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let certificates = certificates(&contents.certificate, &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key);
        let key = key.map_err(|_| unusable(&self.key, "there is no private key in it"))?;
        let config = builder.with_single_cert(certificates, key);
        let mut config = config.map_err(|error| {
            let files = format!("the key in {}", self.key.display());
            unusable(&self.certificate, format!("with {files}: {error}"))
        })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Config {
            server: Arc::new(config),
            verifier,
        })
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    fs::read(file).map_err(|error| {
        let what = format!("{} cannot be read: {error}", file.display());
        io::Error::new(error.kind(), what)
    })
}

fn certificates(pem: &[u8], file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| unusable(file, error))?;
    match read.is_empty() {
        true => Err(unusable(file, "there is no certificate in it")),
        false => Ok(read),
    }
}

/// Verifies certificates by the authorities in `file`.
fn verifier(
    pem: &[u8],
    file: &Path,
    provider: Arc<CryptoProvider>,
) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, file)? {
        let added = roots.add(certificate);
        added.map_err(|error| unusable(file, error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| unusable(file, error))
}

fn unusable(file: &Path, problem: impl std::fmt::Display) -> io::Error {
    let what = format!("{} cannot be used: {problem}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Without the key.
impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}
