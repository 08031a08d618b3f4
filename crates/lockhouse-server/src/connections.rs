//! All connections: limits their number and the calls that may wait on them, and evicts one when
//! there is no room for another.
//!
//! Each costs a descriptor, of which a process has only so many. Calls that wait may take most of
//! them, but not all: the rest is for calls that end soon, such as releases and renewals. When all
//! are taken, [another](crate::eviction) makes room.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::descriptors::Bounds;
use crate::eviction::{Candidate, Class, Lines};
use crate::peer::{Peer, network};

/// How many long answers may be on their way at once. Each takes about 1 MiB.
const MOST_LONG_ANSWERS: usize = 128;

/// The counts for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCounts {
    pub(crate) open: Gauge,
    pub(crate) evicted: Counter,
    pub(crate) waits_refused: Counter,
}

#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    waits: Arc<Semaphore>,
    long_answers: Arc<Semaphore>,
    counts: ConnectionCounts,
    state: Mutex<State>,
    /// Notified when one ends or becomes idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    lines: Lines,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Arc<TcpStream>,
    from: IpAddr,
    end: Arc<Notify>,
    /// How many calls are under way. Changed under the lock of the state.
    calls: watch::Sender<usize>,
    /// Its class and its key in the line of that class, when it last entered one.
    in_line: Mutex<(Class, u64)>,
    /// When its first call began, and the key that it got then.
    asks_since: OnceLock<(u64, Instant)>,
    /// Whether one of its calls was authorized.
    was_let_in: AtomicBool,
    connections: Arc<Connections>,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<Connection>);

impl Connections {
    pub(crate) fn new(bounds: Bounds, counts: ConnectionCounts) -> Arc<Self> {
        Arc::new(Self {
            most: bounds.connections,
            waits: Arc::new(Semaphore::new(bounds.waits)),
            long_answers: Arc::new(Semaphore::new(MOST_LONG_ANSWERS)),
            counts,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Resolves when there is room for one more connection. Evicts idle ones to make room.
    pub(crate) async fn room(&self) {
        loop {
            let next_look = {
                let mut state = self.state();
                if state.open < self.most {
                    return;
                }
                if let Some(idle) = state.lines.evict(self.most) {
                    idle.end.notify_one();
                    self.counts.evicted.inc();
                }
                state.lines.next_look()
            };
            // The end of a grace period changes what may be evicted, without a notification.
            let _ = timeout_at(next_look, self.changed.notified()).await;
        }
    }

    /// Adds a connection. It is idle until its first call.
    pub(crate) fn open(self: &Arc<Self>, stream: TcpStream) -> Arc<Connection> {
        let from = Peer::of(&stream).map(Peer::address);
        let from = network(from.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        let stream = Arc::new(stream);
        let end = Arc::new(Notify::new());
        let idle = Candidate {
            stream: Arc::clone(&stream),
            from,
            end: Arc::clone(&end),
            since: Instant::now(),
        };
        let mut state = self.state();
        state.open += 1;
        let number = state.lines.number();
        state.lines.add(Class::New, number, idle);
        let in_line = (Class::New, number);
        drop(state);
        self.counts.open.inc();
        Arc::new(Connection {
            stream,
            from,
            end,
            calls: watch::Sender::new(0),
            in_line: Mutex::new(in_line),
            asks_since: OnceLock::new(),
            was_let_in: AtomicBool::new(false),
            connections: Arc::clone(self),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    pub(crate) fn begin_call(self: &Arc<Self>) -> OpenCall {
        let mut state = self.connections.state();
        if *self.calls.borrow() == 0 {
            state.lines.remove(self.in_line());
            if !self.was_let_in() {
                self.enter(Class::Asking, &mut state);
            }
        }
        self.calls.send_modify(|calls| *calls += 1);
        OpenCall(Arc::clone(self))
    }

    fn enter(&self, class: Class, state: &mut State) {
        let now = (state.lines.number(), Instant::now());
        let (number, since) = match class {
            Class::Asking => *self.asks_since.get_or_init(|| now),
            _ => now,
        };
        let idle = Candidate {
            stream: Arc::clone(&self.stream),
            from: self.from,
            end: Arc::clone(&self.end),
            since,
        };
        state.lines.add(class, number, idle);
        let in_line = self.in_line.lock();
        *in_line.unwrap_or_else(PoisonError::into_inner) = (class, number);
        self.connections.changed.notify_one();
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

    /// Records that one of its calls was authorized.
    pub(crate) fn let_in(&self) {
        if !self.was_let_in.swap(true, Ordering::Relaxed) {
            self.connections.state().lines.remove(self.in_line());
        }
    }

    fn was_let_in(&self) -> bool {
        self.was_let_in.load(Ordering::Relaxed)
    }

    /// Ends the connection, with all its calls.
    pub(crate) fn end(&self) {
        self.end.notify_one();
    }

    /// Resolves when the connection must end.
    pub(crate) async fn to_end(&self) {
        self.end.notified().await;
    }

    fn in_line(&self) -> (Class, u64) {
        *self.in_line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Self(connection) = self;
        let mut state = connection.connections.state();
        connection.calls.send_modify(|calls| *calls -= 1);
        if *connection.calls.borrow() == 0 {
            state.lines.remove(connection.in_line());
            let class = match connection.was_let_in() {
                true => Class::Known,
                false => Class::Stranger,
            };
            connection.enter(class, &mut state);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.open -= 1;
        state.lines.remove(self.in_line());
        self.connections.counts.open.dec();
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::eviction::GRACE;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tokio::time::{sleep, timeout};

    type Pairs = Vec<(TcpStream, Arc<Connection>)>;

    /// As many connections as a server takes.
    async fn full<const MANY: usize>() -> (Arc<Connections>, Pairs) {
        let bounds = Bounds {
            connections: MANY,
            waits: 1,
        };
        let connections = Connections::new(bounds, ConnectionCounts::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..MANY {
            let caller = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            pairs.push((caller, connections.open(stream)));
        }
        (connections, pairs)
    }

    /// The caller has sent a part of a call.
    async fn has_unread((caller, connection): &mut (TcpStream, Arc<Connection>)) {
        caller.write_all(b"GET").await.unwrap();
        connection.stream.readable().await.unwrap();
    }

    fn had_a_call((_, connection): &(TcpStream, Arc<Connection>), was_let_in: bool) {
        let call = connection.begin_call();
        if was_let_in {
            connection.let_in();
        }
        drop(call);
    }

    /// That they make room in this order, and no other.
    async fn go(connections: &Connections, pairs: &Pairs, order: &[usize]) {
        for goes in order {
            let (_, connection) = &pairs[*goes];
            tokio::select! {
                () = connections.room() => panic!("there is room"),
                () = connection.to_end() => {}
                () = sleep(GRACE * 5) => panic!("{goes} stays"),
            }
        }
    }

    #[tokio::test]
    async fn a_connection_whose_call_was_not_read_yet_goes_last() {
        let (connections, mut pairs) = full::<3>().await;
        has_unread(&mut pairs[0]).await;
        go(&connections, &pairs, &[1, 2, 0]).await;
    }

    #[tokio::test]
    async fn a_new_connection_has_time_for_its_first_call() {
        let (connections, pairs) = full::<3>().await;
        // It had a call, so it goes before those that had none.
        had_a_call(&pairs[2], false);
        assert!(timeout(GRACE / 2, connections.room()).await.is_err());
        timeout(Duration::ZERO, pairs[2].1.to_end()).await.unwrap();
        for (_, connection) in &pairs[..2] {
            let end = timeout(Duration::ZERO, connection.to_end()).await;
            assert!(end.is_err(), "one that is new went");
        }
    }

    #[tokio::test]
    async fn a_flood_of_connections_does_not_end_those_whose_calls_were_let_in() {
        let (connections, pairs) = full::<8>().await;
        for known in [1, 0, 2, 3] {
            had_a_call(&pairs[known], true);
        }
        had_a_call(&pairs[6], false);
        // Only when all others are gone do these go, the longest idle first.
        go(&connections, &pairs, &[6, 4, 5, 7, 1, 0, 2, 3]).await;
    }

    /// As it sends half a TLS handshake, or half a head, on each.
    #[tokio::test]
    async fn an_address_with_many_new_connections_makes_room_at_once() {
        let (connections, pairs) = full::<12>().await;
        had_a_call(&pairs[0], true);
        for _ in 0..5 {
            assert!(timeout(GRACE / 20, connections.room()).await.is_err());
        }
        // The oldest went. So few as are left have their time.
        for (at, (_, connection)) in pairs.iter().enumerate() {
            let went = timeout(Duration::ZERO, connection.to_end()).await;
            assert_eq!(went.is_ok(), (1..4).contains(&at), "{at}");
        }
    }

    /// As it sends its body slowly, or does not read the answer.
    #[tokio::test]
    async fn a_stranger_makes_room_during_its_call() {
        let (connections, mut pairs) = full::<8>().await;
        let mut calls = Vec::new();
        for pair in &pairs[..6] {
            calls.push(pair.1.begin_call());
        }
        pairs[0].1.let_in();
        had_a_call(&pairs[6], true);
        had_a_call(&pairs[7], true);
        has_unread(&mut pairs[1]).await;
        go(&connections, &pairs, &[1, 2, 3, 4, 5, 6, 7]).await;
        let room = timeout(GRACE * 2, connections.room()).await;
        assert!(room.is_err(), "a call of a known caller was ended");
        drop(calls);
    }

    /// It has one second, however many calls it makes.
    #[tokio::test]
    async fn a_stranger_with_call_after_call_makes_room() {
        let (connections, pairs) = full::<2>().await;
        let _known = pairs[0].1.begin_call();
        pairs[0].1.let_in();
        let stranger = &pairs[1].1;
        let calls = async {
            for _ in 0..4 {
                let call = stranger.begin_call();
                sleep(GRACE * 9 / 10).await;
                drop(call);
            }
        };
        tokio::select! {
            () = connections.room() => panic!("there is room"),
            () = stranger.to_end() => {}
            () = calls => panic!("it stays"),
        }
    }

    #[tokio::test]
    async fn a_known_connection_makes_room_while_few_are_new() {
        let (connections, pairs) = full::<8>().await;
        for pair in &pairs[..7] {
            had_a_call(pair, true);
        }
        assert!(timeout(GRACE / 2, connections.room()).await.is_err());
        timeout(Duration::ZERO, pairs[0].1.to_end()).await.unwrap();
    }
}
