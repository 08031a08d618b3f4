//! All connections: limits their number and the calls that may wait on them, and evicts one when
//! there is no room for another.
//!
//! Each costs a descriptor, of which a process has only so many. Calls that wait may take most of
//! them, but not all: the rest is for calls that end soon, such as releases and renewals. When all
//! are taken, the connection that has been without a call for longest makes room. A new connection
//! has some time for its first call. A connection with unread bytes is evicted last, since they may
//! be a call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::descriptors::Bounds;
use crate::socket;

/// How many long answers may be on their way at once. Each takes about 1 MiB.
const MOST_LONG_ANSWERS: usize = 128;

/// How long a connection is kept that waits for its first call, or whose call was not read yet.
const GRACE: Duration = Duration::from_secs(1);

/// The counts for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) open: Gauge,
    pub(crate) evicted: Counter,
    pub(crate) waits_refused: Counter,
}

#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    waits: Arc<Semaphore>,
    long_answers: Arc<Semaphore>,
    counts: Counts,
    state: Mutex<State>,
    /// Notified when one ends or becomes idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    next: u64,
    /// Connections without a call, the longest idle first.
    idle: BTreeMap<u64, Idle>,
}

/// A connection without a call.
#[derive(Clone, Debug)]
struct Idle {
    stream: Arc<TcpStream>,
    /// Ends it.
    end: Arc<Notify>,
    since: Instant,
    /// Whether it has had no call yet.
    is_new: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Arc<TcpStream>,
    end: Arc<Notify>,
    /// How many calls are under way. Changed under the lock of the state.
    calls: watch::Sender<usize>,
    /// Its key among the idle ones, the last time that it was idle.
    idle_as: Mutex<u64>,
    connections: Arc<Connections>,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call(Arc<Connection>);

impl Connections {
    pub(crate) fn new(bounds: Bounds, counts: Counts) -> Arc<Self> {
        Arc::new(Self {
            most: bounds.connections,
            waits: Arc::new(Semaphore::new(bounds.waits)),
            long_answers: Arc::new(Semaphore::new(MOST_LONG_ANSWERS)),
            counts,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Resolves when there is room for one more.
    pub(crate) async fn room(&self) {
        loop {
            {
                let mut state = self.state();
                if state.open < self.most {
                    return;
                }
                if let Some(idle) = state.evict() {
                    idle.end.notify_one();
                    self.counts.evicted.inc();
                }
            }
            // The end of a grace period changes what may be evicted, without a notification.
            let _ = timeout_at(self.next_look(), self.changed.notified()).await;
        }
    }

    /// Adds a connection. It is idle until its first call.
    pub(crate) fn open(self: &Arc<Self>, stream: TcpStream) -> Arc<Connection> {
        let stream = Arc::new(stream);
        let end = Arc::new(Notify::new());
        let idle = Idle {
            stream: Arc::clone(&stream),
            end: Arc::clone(&end),
            since: Instant::now(),
            is_new: true,
        };
        let mut state = self.state();
        state.open += 1;
        let idle_as = state.idle(idle);
        drop(state);
        self.counts.open.inc();
        Arc::new(Connection {
            stream,
            end,
            calls: watch::Sender::new(0),
            idle_as: Mutex::new(idle_as),
            connections: Arc::clone(self),
        })
    }

    /// When the next connection may be evicted, unless something changes before.
    fn next_look(&self) -> Instant {
        let state = self.state();
        let first = state.idle.values().map(Idle::grace_ends);
        first.min().unwrap_or_else(|| Instant::now() + GRACE)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn idle(&mut self, idle: Idle) -> u64 {
        let number = self.next;
        self.next += 1;
        self.idle.insert(number, idle);
        number
    }

    /// Removes the connection to evict, if there is one.
    fn evict(&mut self) -> Option<Idle> {
        let now = Instant::now();
        let mut idle = self.idle.iter();
        let quiet = idle.find(|(_, idle)| idle.may_end(now) && !socket::has_unread(&idle.stream));
        let goes = quiet.or_else(|| {
            let first = self.idle.first_key_value();
            first.filter(|(_, idle)| idle.grace_ends() <= now)
        });
        let number = *goes?.0;
        self.idle.remove(&number)
    }
}

impl Idle {
    fn grace_ends(&self) -> Instant {
        self.since + GRACE
    }

    /// Whether it may be evicted at `now`, if it has no unread bytes.
    fn may_end(&self, now: Instant) -> bool {
        !self.is_new || self.grace_ends() <= now
    }
}

impl Connection {
    pub(crate) fn begin_call(self: &Arc<Self>) -> Call {
        let mut state = self.connections.state();
        if *self.calls.borrow() == 0 {
            state.idle.remove(&self.idle_as());
        }
        self.calls.send_modify(|calls| *calls += 1);
        Call(Arc::clone(self))
    }

    /// How many calls are under way.
    pub(crate) fn calls(&self) -> watch::Receiver<usize> {
        self.calls.subscribe()
    }

    /// A place among the calls that may wait, unless all are taken.
    pub(crate) fn may_wait(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.connections.waits).try_acquire_owned().ok();
        if place.is_none() {
            self.connections.counts.waits_refused.inc();
        }
        place
    }

    /// A place for a long answer, unless all are taken.
    pub(crate) fn long_answer(&self) -> Option<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.connections.long_answers);
        places.try_acquire_owned().ok()
    }

    /// Ends it, with all its calls.
    pub(crate) fn end(&self) {
        self.end.notify_one();
    }

    /// Resolves when the connection must end.
    pub(crate) async fn to_end(&self) {
        self.end.notified().await;
    }

    fn idle_as(&self) -> u64 {
        *self.idle_as.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Self(connection) = self;
        let mut state = connection.connections.state();
        connection.calls.send_modify(|calls| *calls -= 1);
        if *connection.calls.borrow() == 0 {
            let number = state.idle(Idle {
                stream: Arc::clone(&connection.stream),
                end: Arc::clone(&connection.end),
                since: Instant::now(),
                is_new: false,
            });
            let idle_as = connection.idle_as.lock();
            *idle_as.unwrap_or_else(PoisonError::into_inner) = number;
            connection.connections.changed.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.open -= 1;
        state.idle.remove(&self.idle_as());
        self.connections.counts.open.dec();
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    /// Three connections of a server that takes three, of which the first one's caller has sent a
    /// part of a call.
    async fn full() -> (Arc<Connections>, Vec<(TcpStream, Arc<Connection>)>) {
        let bounds = Bounds {
            connections: 3,
            waits: 1,
        };
        let connections = Connections::new(bounds, Counts::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..bounds.connections {
            let caller = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            pairs.push((caller, connections.open(stream)));
        }
        pairs[0].0.write_all(b"GET").await.unwrap();
        pairs[0].1.stream.readable().await.unwrap();
        (connections, pairs)
    }

    #[tokio::test]
    async fn a_connection_whose_call_was_not_read_yet_goes_last() {
        let (connections, pairs) = full().await;
        for goes in [1, 2, 0] {
            let room = connections.room();
            let (_, connection) = &pairs[goes];
            tokio::select! {
                () = room => panic!("there is no room"),
                () = connection.to_end() => {}
            }
        }
    }

    #[tokio::test]
    async fn a_new_connection_has_time_for_its_first_call() {
        let (connections, pairs) = full().await;
        // It had a call, so it is evicted before those that had none.
        drop(pairs[2].1.begin_call());
        assert!(timeout(GRACE / 2, connections.room()).await.is_err());
        timeout(Duration::ZERO, pairs[2].1.to_end()).await.unwrap();
        for (_, connection) in &pairs[..2] {
            let end = timeout(Duration::ZERO, connection.to_end()).await;
            assert!(end.is_err(), "one that is new went");
        }
    }
}
