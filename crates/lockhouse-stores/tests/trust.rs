//! A given CA is the only one that the driver trusts. A URL with a file like this is refused before.
#![cfg(feature = "postgres")]

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A file without a certificate names nobody. Where the public CAs were trusted beside those of the file, the client would
/// begin a handshake.
#[tokio::test]
async fn a_given_ca_is_not_added_to_the_public_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let mut sent = 0;
        // As often as the client comes.
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8];
            stream.read_exact(&mut request).await.unwrap();
            // It speaks TLS.
            stream.write_all(b"S").await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            sent += rest.len();
            assert_eq!(sent, 0, "the client began a handshake");
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, "").unwrap();
    let options = PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(port)
        .username("app")
        .ssl_mode(PgSslMode::VerifyCa)
        .ssl_root_cert(&ca);
    let error = options.connect().await.unwrap_err().to_string();
    assert!(error.contains("no root trust anchors"), "{error}");
    assert!(!server.is_finished());
}
