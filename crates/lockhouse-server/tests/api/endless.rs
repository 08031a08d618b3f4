//! A server whose answer has no end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use lockhouse::{Code, Lockhouse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The client closes the connection, keeps nothing of it, and does not ask again.
#[tokio::test]
async fn a_client_reads_no_more_of_an_answer_than_a_page_has() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {
            counted.fetch_add(chunk.len(), SeqCst);
        }
        // It comes no second time.
        listener.accept().await.map(drop)
    });
    let client = Lockhouse::connect(url).await.unwrap();
    let error = client.status("a").await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    assert!(error.to_string().contains("without end"), "{error}");
    let sent = sent.load(SeqCst);
    assert!(sent < 100 * 1024 * 1024, "{sent} bytes");
    assert!(!server.is_finished());
}
