//! A caller's socket. The HTTP library reads and writes it, and this module watches it.
//!
//! The HTTP library does not read while a call is under way, so it does not notice a caller that
//! hangs up after unread bytes. The socket's readiness shows that without reading ahead.

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a caller may take to read what is to be written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often to check for the end of a connection after unread bytes.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How much a caller may send after a waiting call. With more, the end of its connection may be
/// stuck on the caller's machine.
const MOST_BEHIND: usize = 16 * 1024;

/// A connection to a machine that vanished ends within a minute.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_TRIES: u32 = 3;

/// The socket as the HTTP library sees it.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
    /// Runs while something waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// Sets the options of `stream`.
pub(crate) fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_TRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Resolves when the caller has closed its side of `stream`, or the connection is lost.
pub(crate) async fn hung_up(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => {}
            _ => return,
        }
        match stream.try_io(Interest::READABLE, || peek::<MOST_BEHIND>(stream)) {
            Ok(1..MOST_BEHIND) => sleep(LOOK_EVERY).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

/// Whether the caller has sent something that was not read yet.
pub(crate) fn has_unread(stream: &TcpStream) -> bool {
    matches!(peek::<1>(stream), Ok(1))
}

/// How many bytes are unread, up to `MOST`.
fn peek<const MOST: usize>(stream: &TcpStream) -> io::Result<usize> {
    let mut bytes = [MaybeUninit::uninit(); MOST];
    SockRef::from(stream).peek(&mut bytes)
}

/// Resolves when `stream` has failed: it was reset, or the caller's machine is gone.
pub(crate) async fn broken(stream: &TcpStream) {
    // This fails only if the runtime is about to end.
    let _ = stream.ready(Interest::ERROR).await;
}

impl Socket {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    fn poll_write_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while let Poll::Ready(ready) = self.stream.poll_write_ready(context) {
            ready?;
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called when all data has been written.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stalled = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }
}
