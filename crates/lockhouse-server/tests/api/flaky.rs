//! Test servers between a client and its server: a proxy that loses answers, and servers with
//! scripted answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The fate of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passed,
    Lost,
}

type Fates = Arc<Mutex<VecDeque<Fate>>>;

/// A proxy before the server at `to`. The answers have these fates, in turn; those after, none.
pub(crate) async fn proxy(to: SocketAddr, fates: &[Fate]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let fates: Fates = Arc::new(Mutex::new(fates.iter().copied().collect()));
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            tokio::spawn(pass(caller, to, Arc::clone(&fates)));
        }
    });
    url
}

/// Until the caller hangs up or an answer is lost. Answers here are short, and arrive whole.
async fn pass(caller: TcpStream, to: SocketAddr, fates: Fates) {
    let server = TcpStream::connect(to).await.unwrap();
    let (mut from_caller, mut to_caller) = caller.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_caller, &mut to_server).await;
    });
    let mut answer = vec![0; 64 * 1024];
    loop {
        let read = from_server.read(&mut answer).await.unwrap_or(0);
        let fate = fates.lock().unwrap().pop_front();
        if read == 0 || fate == Some(Fate::Lost) {
            break;
        }
        if to_caller.write_all(&answer[..read]).await.is_err() {
            break;
        }
    }
    asking.abort();
}

/// A proxy before the server at `to` that passes on every `PUT` so late, also after its caller hung up.
pub(crate) async fn late(to: SocketAddr, by: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            tokio::spawn(pass_late(caller, to, by));
        }
    });
    url
}

async fn pass_late(caller: TcpStream, to: SocketAddr, by: Duration) {
    let server = TcpStream::connect(to).await.unwrap();
    let (mut from_caller, mut to_caller) = caller.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answering = async {
        // A caller that hung up does not read the answer.
        let _ = tokio::io::copy(&mut from_server, &mut to_caller).await;
    };
    let asking = async {
        let mut call = vec![0; 64 * 1024];
        loop {
            let read = from_caller.read(&mut call).await.unwrap_or(0);
            if call[..read].starts_with(b"PUT") {
                sleep(by).await;
            }
            if read == 0 || to_server.write_all(&call[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(answering, asking);
}

/// A server that answers its n-th call, counted from 0, with what `answer` makes of the call's
/// text.
pub(crate) async fn server(answer: impl Fn(usize, String) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for nth in 0.. {
            let Ok((mut caller, _)) = listener.accept().await else {
                return;
            };
            let call = read_call(&mut caller).await;
            let _ = caller.write_all(answer(nth, call).as_bytes()).await;
        }
    });
    url
}

/// An answer that ends its connection.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

async fn read_call(caller: &mut TcpStream) -> String {
    let mut call = String::new();
    let mut chunk = vec![0; 4096];
    loop {
        let read = caller.read(&mut chunk).await.unwrap_or(0);
        call.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
        let Some((head, body)) = call.split_once("\r\n\r\n") else {
            assert_ne!(read, 0, "half a call: {call}");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
            return call;
        }
    }
}
