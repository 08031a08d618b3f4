//! A given CA is the only one that is trusted.
#![cfg(feature = "postgres")]

use std::error::Error as _;

use lockhouse_stores::open;
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
    let ca = ca.display();
    let url = format!("postgres://app@127.0.0.1:{port}/permits?sslmode=verify-ca&sslrootcert={ca}");
    let error = open(&url).unwrap().ready().await.unwrap_err();
    let source = error.source().map(ToString::to_string);
    assert!(
        source
            .as_ref()
            .is_some_and(|source| source.contains("no root trust anchors")),
        "{error}: {source:?}"
    );
    assert!(!server.is_finished());
}
