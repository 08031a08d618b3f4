//! Carries one connection byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::link::{Caught, Failure, Shared, State, Trap};
use crate::torture::plan::{Direction, Point};

/// A slow link passes so many bytes, and then pauses.
const SLOW_BYTES: usize = 200;
const SLOW_PAUSE: Duration = Duration::from_millis(15);

/// Bytes that mark a commit: the SQL statement, or on Redis the key of the counter, which only the saving script gets.
const COMMITS: [&[u8]; 2] = [b"COMMIT", b"}:number\r\n"];

/// How many bytes of a packet become nonsense. They cover the head of a packet in every protocol.
const GARBLED: usize = 48;

/// How long the connection stays open after nonsense, for its reader to process it.
const AFTER_NONSENSE: Duration = Duration::from_millis(200);

/// Carries a connection until one side hangs up, or a failure ends it.
pub(super) async fn carry(client: TcpStream, server: TcpStream, nth: usize, shared: &Shared) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut asking = Half::new(from_client, to_server, Direction::Asking);
    let mut answering = Half::new(from_server, to_client, Direction::Answering);
    let mut state = shared.state.subscribe();
    // Set once a COMMIT went to the server, until its reply.
    let mut awaited: Option<Trap> = None;
    loop {
        let now = *state.borrow_and_update();
        let (length, direction) = tokio::select! {
            length = asking.read(), if !now.holds_back(nth, Direction::Asking) => {
                (length, Direction::Asking)
            }
            length = answering.read(), if !now.holds_back(nth, Direction::Answering) => {
                (length, Direction::Answering)
            }
            changed = state.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Some(length) = length else { return };
        // The data may have been read before the failure began.
        let now = *shared.state.borrow();
        if direction == Direction::Answering
            && let Some(trap) = awaited.take()
        {
            return trap.hold().await;
        }
        let half = match direction {
            Direction::Asking => &mut asking,
            Direction::Answering => &mut answering,
        };
        let trap = (direction == Direction::Asking && half.has_commit(length))
            .then(|| shared.trap().take())
            .flatten();
        if let Some(trap) = trap {
            if trap.point == Point::Before {
                return trap.hold().await;
            }
            if half.pass(length).await.is_none() {
                return;
            }
            if trap.point == Point::Forwarded {
                return trap.hold().await;
            }
            awaited = Some(trap);
        } else if half.pass_by(length, now).await.is_none() {
            return;
        }
    }
}

impl Trap {
    /// Holds the connection until the task that set the trap releases it.
    async fn hold(self) {
        let (held, let_go) = oneshot::channel();
        if self.caught.send(Caught { _held: held }).await.is_ok() {
            let _ = let_go.await;
        }
    }
}

/// One direction.
struct Half {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    direction: Direction,
    buffer: Vec<u8>,
}

impl Half {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf, direction: Direction) -> Self {
        Self {
            from,
            to,
            direction,
            buffer: vec![0; 1 << 16],
        }
    }

    /// Reads the next bytes. `None` at the end. No data is lost if the future is dropped.
    async fn read(&mut self) -> Option<usize> {
        let length = self.from.read(&mut self.buffer).await.ok()?;
        (length > 0).then_some(length)
    }

    fn has_commit(&self, length: usize) -> bool {
        COMMITS.iter().any(|word| {
            let mut windows = self.buffer[..length].windows(word.len());
            windows.any(|bytes| bytes == *word)
        })
    }

    async fn pass(&mut self, length: usize) -> Option<()> {
        self.to.write_all(&self.buffer[..length]).await.ok()
    }

    /// Passes data as the failure says. `None` if the failure ends the connection.
    async fn pass_by(&mut self, length: usize, state: State) -> Option<()> {
        match state.failure {
            Some(Failure::Slow) => {
                for piece in self.buffer[..length].chunks(SLOW_BYTES) {
                    sleep(SLOW_PAUSE).await;
                    self.to.write_all(piece).await.ok()?;
                }
                Some(())
            }
            Some(Failure::Garbled(direction)) if direction == self.direction => {
                let garbled = length.min(GARBLED);
                fastrand::fill(&mut self.buffer[..garbled]);
                self.pass(length).await?;
                sleep(AFTER_NONSENSE).await;
                None
            }
            Some(Failure::ClosedMidPacket(direction)) if direction == self.direction => {
                self.pass(length / 2).await?;
                None
            }
            _ => self.pass(length).await,
        }
    }
}
