use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::torture::plan::Direction;

const SOON: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(10);

/// A server that echoes, and a client of it through a proxy.
async fn echo() -> (Proxy, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(&listener.local_addr().unwrap().to_string()).await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    let client = connect(&proxy).await;
    (proxy, client)
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port()))
        .await
        .unwrap()
}

async fn told(client: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
    client.write_all(text).await?;
    heard(client, text.len()).await
}

async fn heard(client: &mut TcpStream, length: usize) -> std::io::Result<Vec<u8>> {
    let mut answer = vec![0; length];
    client.read_exact(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn one_direction_is_held_back_and_then_goes_on() {
    let (proxy, mut client) = echo().await;
    assert_eq!(told(&mut client, b"a").await.unwrap(), b"a");
    for direction in [Direction::Asking, Direction::Answering] {
        proxy.fail(Failure::OneWay(direction));
        assert!(timeout(SOON, told(&mut client, b"b")).await.is_err());
        proxy.mend();
        let after = timeout(LONG, heard(&mut client, 1)).await;
        assert_eq!(after.unwrap().unwrap(), b"b");
    }
}

#[tokio::test]
async fn forgotten_connections_stay_silent_and_new_ones_work() {
    let (proxy, mut client) = echo().await;
    assert!(told(&mut client, b"a").await.is_ok());
    proxy.forget_connections();
    assert!(timeout(SOON, told(&mut client, b"b")).await.is_err());
    let mut other = connect(&proxy).await;
    assert_eq!(told(&mut other, b"c").await.unwrap(), b"c");
}

#[tokio::test]
async fn nonsense_and_halves_end_the_connection() {
    for failure in [
        Failure::Garbled(Direction::Asking),
        Failure::ClosedMidPacket(Direction::Answering),
        Failure::Cut,
    ] {
        let (proxy, mut client) = echo().await;
        let text = [7; 100];
        assert!(told(&mut client, &text).await.is_ok());
        proxy.fail(failure);
        let answer = timeout(LONG, told(&mut client, &text)).await.unwrap();
        // The echo is nonsense, or the connection ends. After that it has ended.
        assert!(
            answer.is_err() || answer.is_ok_and(|said| said != text),
            "{failure:?}"
        );
        let more = timeout(LONG, told(&mut client, &text)).await.unwrap();
        assert!(more.is_err(), "{failure:?}");
    }
}

#[tokio::test]
async fn a_commit_is_caught_where_the_trap_says() {
    for point in [Point::Before, Point::Forwarded, Point::Replied] {
        let (proxy, mut client) = echo().await;
        let mut catch = proxy.set_trap(point);
        assert_eq!(told(&mut client, b"BEGIN").await.unwrap(), b"BEGIN");
        client.write_all(b"COMMIT").await.unwrap();
        let caught = timeout(LONG, catch.recv()).await.unwrap();
        assert!(caught.is_some(), "{point:?}");
        assert!(timeout(SOON, heard(&mut client, 1)).await.is_err());
        drop(caught);
        assert!(timeout(LONG, heard(&mut client, 1)).await.unwrap().is_err());
        // The trap catches only one COMMIT.
        let mut other = connect(&proxy).await;
        assert_eq!(told(&mut other, b"COMMIT").await.unwrap(), b"COMMIT");
    }
}

/// A server that counts the requests that it gets.
async fn counting() -> (Proxy, Arc<std::sync::atomic::AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before_http(&listener.local_addr().unwrap().to_string()).await;
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while stream
                    .read(&mut buffer)
                    .await
                    .is_ok_and(|length| length > 0)
                {
                    counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(reply).await.unwrap();
                }
            });
        }
    });
    (proxy, count)
}

const REQUEST: &[u8] = b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
const REPLY: usize = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".len();

#[tokio::test]
async fn a_request_comes_twice_and_is_answered_once() {
    let (proxy, count) = counting().await;
    proxy.fail(Failure::RepeatedRequests);
    let mut client = connect(&proxy).await;
    client.write_all(REQUEST).await.unwrap();
    assert!(heard(&mut client, REPLY).await.unwrap().ends_with(b"ok"));
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 2);
    assert!(timeout(SOON, heard(&mut client, 1)).await.is_err());
}

#[tokio::test]
async fn a_reply_is_repeated_at_once_or_to_the_next_request() {
    let (proxy, count) = counting().await;
    proxy.fail(Failure::RepeatedReplies);
    let mut next = 0;
    for nth in 1..=40 {
        let mut client = connect(&proxy).await;
        client.write_all(REQUEST).await.unwrap();
        heard(&mut client, REPLY).await.unwrap();
        if timeout(SOON / 10, heard(&mut client, REPLY)).await.is_ok() {
            continue;
        }
        client.write_all(REQUEST).await.unwrap();
        heard(&mut client, 2 * REPLY).await.unwrap();
        next += 1;
        assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), nth + next);
    }
    assert!((1..40).contains(&next), "{next}");
}

/// P9: in HTTP only the order tells which reply belongs to which request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_to_another_call_is_not_taken() {
    let place = crate::place::server().await.unwrap();
    let (proxy, client) = by_proxy(&place).await;
    proxy.fail(Failure::RepeatedReplies);
    client.define("a", 40).await.unwrap();
    for nth in 0..40 {
        let id = format!("r-{nth}");
        let permit = client
            .request_with_id(&id)
            .permits("a", 1)
            .try_acquire()
            .await;
        assert_eq!(permit.unwrap().forget().as_str(), id);
        let found = client.find(&id).await.unwrap();
        assert_eq!(found.external_id.as_str(), id);
        let in_use = client.status("a").await.unwrap().semaphore.in_use;
        assert_eq!(in_use, nth + 1);
    }
}

#[tokio::test]
async fn replies_are_lost_though_their_requests_were_done() {
    let (proxy, count) = counting().await;
    proxy.fail(Failure::LostReplies);
    let mut lost = 0;
    for _ in 0..40 {
        let mut client = connect(&proxy).await;
        client.write_all(REQUEST).await.unwrap();
        lost += u32::from(heard(&mut client, REPLY).await.is_err());
    }
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 40);
    assert!((1..40).contains(&lost), "{lost}");
}

/// A proxy before a server, and a client that goes through it.
async fn by_proxy(place: &crate::place::Place) -> (Proxy, lockhouse::Lockhouse) {
    let address = place.url().trim_start_matches("http://");
    let proxy = Proxy::before_http(address).await;
    let url = format!("http://127.0.0.1:{}", proxy.port());
    (proxy, lockhouse::Lockhouse::connect(&url).await.unwrap())
}

/// P3: of two releases only one claims the end, even if the first answer to the other was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_after_the_end_does_not_claim_the_end() {
    let place = crate::place::server().await.unwrap();
    let direct = place.client().await;
    direct.define("a", 1).await.unwrap();
    let (proxy, other) = by_proxy(&place).await;
    proxy.fail(Failure::LostReplies);
    for nth in 0..12 {
        let id = format!("r-{nth}");
        let permit = direct
            .request_with_id(&id)
            .permits("a", 1)
            .try_acquire()
            .await;
        permit.unwrap().forget();
        assert!(direct.release(&id).await.unwrap().now);
        // A client cannot distinguish its own release from another end during one of its tries.
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Half of the answers are lost; some are lost four times.
        if let Ok(released) = other.release(&id).await {
            assert!(!released.now, "{id} was released twice");
        }
    }
}
