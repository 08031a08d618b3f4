//! TLS, with a private CA of each test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::hanging_up::SOON;
use crate::server::until;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lockhouse::{Code, ConnectOptions, Error, Lockhouse};
use lockhouse_server::{Options, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate authority.
struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The PEM of a certificate for `name`, and of its key.
    fn issue(&self, name: &str) -> (String, String) {
        self.sign(CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// One that expires at `end`.
    fn issue_until(&self, name: &str, end: SystemTime) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = end.into();
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

/// A server with TLS, and its files.
struct Encrypted {
    ca: Ca,
    folder: TempDir,
    lockhouse: Lockhouse,
    tls: Tls,
    port: u16,
}

impl Encrypted {
    async fn start() -> Self {
        let (ca, folder) = (Ca::new(), TempDir::new().unwrap());
        fs::write(folder.path().join("ca.pem"), ca.0.pem()).unwrap();
        write(folder.path(), ca.issue("localhost"));
        let tls = Tls::load(files(folder.path())).unwrap();
        let lockhouse = Lockhouse::connect("memory:").await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = Options {
            tls: Some(tls.clone()),
            ..Options::default()
        };
        let never = std::future::pending::<()>();
        let serving = lockhouse_server::serve_with(lockhouse.clone(), listener, options, never);
        tokio::spawn(serving);
        Self {
            ca,
            folder,
            lockhouse,
            tls,
            port,
        }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    async fn client(&self) -> Lockhouse {
        let options = ConnectOptions::new().ca_file(self.ca_file());
        let client = Lockhouse::connect_with(self.url(), options).await;
        client.unwrap()
    }

    /// A connection that offers HTTP/2, by a caller with the certificate for `name`.
    async fn connect(&self, name: Option<&str>) -> TlsStream<TcpStream> {
        let shown = name.map(|name| self.ca.issue(name));
        self.connect_for(b"h2", shown).await
    }

    /// One that offers `protocol`, by a caller that shows the certificate `shown`.
    async fn connect_for(
        &self,
        protocol: &[u8],
        shown: Option<(String, String)>,
    ) -> TlsStream<TcpStream> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.ca.roots());
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
                let builder =
                    builder.with_client_auth_cert(vec![certificate.unwrap()], key.unwrap());
                builder.unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.unwrap()
    }

    /// The server's answer by HTTP/2 to a caller with the certificate for `name`.
    async fn status(&self, name: Option<&str>, path: &str) -> StatusCode {
        let stream = self.connect(name).await;
        let (_, session) = stream.get_ref();
        assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
        let io = TokioIo::new(stream);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().uri(format!("{}{path}", self.url()));
        let request = request.body(Full::<Bytes>::default()).unwrap();
        sender.send_request(request).await.unwrap().status()
    }

    /// The certificate that the server shows to a new connection.
    async fn certificate(&self) -> CertificateDer<'static> {
        let stream = self.connect(None).await;
        let (_, session) = stream.get_ref();
        session.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        client_ca: Some(folder.join("ca.pem")),
    }
}

fn write(folder: &Path, (certificate, key): (String, String)) {
    fs::write(folder.join("server.pem"), certificate).unwrap();
    fs::write(folder.join("server.key"), key).unwrap();
}

#[tokio::test]
async fn a_client_verifies_the_server_by_its_ca_file() {
    let server = Encrypted::start().await;
    let client = server.client().await;
    client.define("a", 1).await.unwrap();
    let permit = client.semaphore("a").acquire().await.unwrap();
    permit.release().await.unwrap();
    let other = Ca::new();
    let file = server.folder.path().join("other.pem");
    fs::write(&file, other.0.pem()).unwrap();
    let options = ConnectOptions::new().ca_file(file);
    let stranger = Lockhouse::connect_with(server.url(), options)
        .await
        .unwrap();
    let error = stranger.status("a").await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    let is_permanent = matches!(&error, Error::Store(error) if error.is_permanent());
    assert!(is_permanent && !error.is_transient(), "{error:?}");
}

/// P10. TLS goes by the same socket, whose end is looked for behind what it has not read.
#[tokio::test]
async fn a_waiter_that_hangs_up_an_encrypted_connection_is_granted_nothing() {
    let body = r#"{"permits":[{"semaphore":"a"}],"wait_ms":86400000}"#;
    for protocol in ["http/1.1", "h2"] {
        let server = Encrypted::start().await;
        let waiting = async || server.lockhouse.status("a").await.unwrap().waiting;
        server.lockhouse.define("a", 1).await.unwrap();
        let held = server.lockhouse.semaphore("a").acquire().await.unwrap();
        let mut stream = server.connect_for(protocol.as_bytes(), None).await;
        if protocol == "h2" {
            let url = format!("{}/v1/requests/y", server.url());
            let call = Request::put(url).header("content-type", "application/json");
            let call = call.body(Full::<Bytes>::from(body)).unwrap();
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let answer = tokio::spawn(sender.send_request(call));
            until("one waits", async || waiting().await == 1).await;
            answer.abort();
        } else {
            let length = body.len();
            let call = format!(
                "PUT /v1/requests/y HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(call.as_bytes()).await.unwrap();
            until("one waits", async || waiting().await == 1).await;
            // Half of another call hides the end, where somebody reads for it.
            stream.write_all(b"\r\nGET /v1/sem").await.unwrap();
            drop(stream);
        }
        let since = Instant::now();
        until("nobody waits", async || waiting().await == 0).await;
        assert!(since.elapsed() < SOON, "{protocol}: {:?}", since.elapsed());
        held.release().await.unwrap();
        let status = server.lockhouse.status("a").await.unwrap();
        assert_eq!(status.semaphore.in_use, 0, "{protocol}");
    }
}

#[tokio::test]
async fn a_certificate_acts_as_the_token_that_has_its_name() {
    let server = Encrypted::start().await;
    server.lockhouse.define("a", 1).await.unwrap();
    let grants = ["read:a".parse().unwrap()];
    let made = server.lockhouse.create_token("ci.internal", &grants, None);
    made.await.unwrap();
    let path = "/v1/semaphores/a";
    assert_eq!(server.status(None, path).await, 401);
    assert_eq!(server.status(Some("web.internal"), path).await, 401);
    assert_eq!(server.status(Some("ci.internal"), path).await, 200);
    assert_eq!(server.status(Some("ci.internal"), "/v1/tokens").await, 403);
}

#[tokio::test]
async fn a_connection_ends_when_its_callers_certificate_expires() {
    let server = Encrypted::start().await;
    server.lockhouse.define("a", 1).await.unwrap();
    let grants = ["read:a".parse().unwrap()];
    let made = server.lockhouse.create_token("ci.internal", &grants, None);
    made.await.unwrap();
    let lasts = Duration::from_secs(3);
    let shown = server
        .ca
        .issue_until("ci.internal", SystemTime::now() + lasts);
    let stream = server.connect_for(b"h2", Some(shown)).await;
    let began = Instant::now();
    let io = TokioIo::new(stream);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let call = || {
        let request = Request::builder().uri(format!("{}/v1/semaphores/a", server.url()));
        request.body(Full::<Bytes>::default()).unwrap()
    };
    let answer = sender.send_request(call()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let ended = timeout(Duration::from_secs(12), connection).await;
    assert!(ended.is_ok(), "the connection goes on");
    // A certificate has whole seconds.
    assert!(began.elapsed() > lasts - Duration::from_secs(1));
    assert!(sender.send_request(call()).await.is_err());
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let mut server = Encrypted::start().await;
    let roots = Ca::new();
    // The caller still trusts the server.
    let trusted = std::mem::replace(&mut server.ca, roots);
    fs::write(server.ca_file(), server.ca.0.pem()).unwrap();
    assert!(server.tls.reload().unwrap());
    server.ca = trusted;
    let stream = server.connect(Some("ci.internal")).await;
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::builder().uri(server.url());
    let request = request.body(Full::<Bytes>::default()).unwrap();
    assert!(sender.send_request(request).await.is_err());
    assert!(connection.await.unwrap().is_err());
}

/// Connections that are open go on.
#[tokio::test]
async fn changed_certificates_are_used_and_broken_ones_are_not() {
    let server = Encrypted::start().await;
    let client = server.client().await;
    client.define("a", 1).await.unwrap();
    let held = client.semaphore("a").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.semaphore("a").acquire().await }
    });
    let first = server.certificate().await;
    assert!(!server.tls.reload().unwrap());
    write(server.folder.path(), server.ca.issue("localhost"));
    assert!(server.tls.reload().unwrap());
    let second = server.certificate().await;
    assert_ne!(first, second);
    let key = server.folder.path().join("server.key");
    fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let error = server.tls.reload().unwrap_err().to_string();
    assert!(error.contains("server.pem cannot be used"), "{error}");
    let again = server.tls.reload().unwrap_err().to_string();
    assert_eq!(again, error);
    assert_eq!(server.certificate().await, second);
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn changed_certificate_files_are_read_again_without_a_signal() {
    let server = Encrypted::start().await;
    let first = server.certificate().await;
    write(server.folder.path(), server.ca.issue("localhost"));
    until("the new certificate is shown", async || {
        server.certificate().await != first
    })
    .await;
}
