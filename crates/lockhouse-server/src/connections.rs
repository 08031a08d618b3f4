//! All connections: limits their number and the calls that may wait on them, and evicts one when
//! there is no room for another.
//!
//! Each costs a descriptor, of which a process has only so many. Calls that wait may take most of
//! them, but not all: the rest is for calls that end soon, such as releases and renewals. When all
//! are taken, an idle connection makes room. Three classes of idle connections are kept apart:
//!
//! 1. [`Class::Stranger`]: none of its calls was let in. It goes first.
//! 2. [`Class::New`]: it had no call yet. It has a second for its first call, and is a stranger then.
//! 3. [`Class::Known`]: a call by it was let in. It goes last, and not at all while a quarter of all
//!    connections are new ones: the next of those makes room within a second. So a flood of
//!    connections by which no calls come does not end those of holders.
//!
//! In its class, the one that has been idle for longest goes first, and one whose caller has sent
//! something that was not read yet goes last, as that may be a call. All this takes little time,
//! however many connections there are.
//!
//! A caller can also send half a TLS handshake or half a head, a thousand times. While it waits, its
//! connections are new ones. If one address has many of those, its oldest goes without its second. So
//! the connections in such a flood make room for each other at once, and a caller that comes after
//! them, from the same address or another, does not wait for them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::crowds::Crowds;
use crate::descriptors::Bounds;
use crate::peer::{Peer, network};
use crate::socket;

/// How many long answers may be on their way at once. Each takes about 1 MiB.
const MOST_LONG_ANSWERS: usize = 128;

/// How long a connection is kept before its first call, and how long one that has unread bytes.
const GRACE: Duration = Duration::from_secs(1);

/// No known connection is evicted while one of this many connections is new, or more.
const NEW_OF: usize = 4;

/// If one address has more than one of this many connections as new ones, these are evicted without their second. One
/// address may always have `NO_CROWD` new ones.
const CROWD_OF: usize = 16;
const NO_CROWD: usize = 8;

/// How many connections of a class are checked for one without unread bytes.
const LOOKED_AT: usize = 16;

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
    strangers: Line,
    new: Line,
    /// The new connections by address.
    crowds: Crowds,
    known: Line,
}

/// Idle connections, the one that has been idle for longest first.
type Line = BTreeMap<u64, Idle>;

/// A connection without a call.
#[derive(Clone, Debug)]
struct Idle {
    stream: Arc<TcpStream>,
    /// The network of its caller.
    from: IpAddr,
    /// Ends the connection.
    end: Arc<Notify>,
    since: Instant,
}

/// The server's knowledge of a connection's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Stranger,
    New,
    Known,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Arc<TcpStream>,
    from: IpAddr,
    end: Arc<Notify>,
    /// How many calls are under way. Changed under the lock of the state.
    calls: watch::Sender<usize>,
    /// Its class and its key in the line of that class, when it was last idle.
    idle_as: Mutex<(Class, u64)>,
    /// Whether one of its calls was authorized.
    is_known: AtomicBool,
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

    /// Resolves when there is room for one more connection. Evicts idle ones to make room.
    pub(crate) async fn room(&self) {
        loop {
            {
                let mut state = self.state();
                if state.open < self.most {
                    return;
                }
                if let Some(idle) = state.evict(self.most) {
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
        let from = Peer::of(&stream).map(Peer::address);
        let from = network(from.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        let stream = Arc::new(stream);
        let end = Arc::new(Notify::new());
        let idle = Idle {
            stream: Arc::clone(&stream),
            from,
            end: Arc::clone(&end),
            since: Instant::now(),
        };
        let mut state = self.state();
        state.open += 1;
        let idle_as = (Class::New, state.idle(Class::New, idle));
        drop(state);
        self.counts.open.inc();
        Arc::new(Connection {
            stream,
            from,
            end,
            calls: watch::Sender::new(0),
            idle_as: Mutex::new(idle_as),
            is_known: AtomicBool::new(false),
            connections: Arc::clone(self),
        })
    }

    /// When the next connection may be evicted, unless something changes before.
    fn next_look(&self) -> Instant {
        let state = self.state();
        let lines = [&state.strangers, &state.new, &state.known];
        let first = lines.into_iter().filter_map(|line| line.values().next());
        let now = Instant::now();
        let ends = first.map(Idle::grace_ends).filter(|ends| *ends > now).min();
        ends.unwrap_or(now + GRACE)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn line(&self, class: Class) -> &Line {
        match class {
            Class::Stranger => &self.strangers,
            Class::New => &self.new,
            Class::Known => &self.known,
        }
    }

    fn line_mut(&mut self, class: Class) -> &mut Line {
        match class {
            Class::Stranger => &mut self.strangers,
            Class::New => &mut self.new,
            Class::Known => &mut self.known,
        }
    }

    fn idle(&mut self, class: Class, idle: Idle) -> u64 {
        let number = self.next;
        self.next += 1;
        if class == Class::New {
            self.crowds.insert(idle.from, number);
        }
        self.line_mut(class).insert(number, idle);
        number
    }

    fn remove(&mut self, (class, number): (Class, u64)) -> Option<Idle> {
        let idle = self.line_mut(class).remove(&number)?;
        if class == Class::New {
            self.crowds.remove(idle.from, number);
        }
        Some(idle)
    }

    /// Removes the idle connection that is to make room. There may be `most` connections in all.
    fn evict(&mut self, most: usize) -> Option<Idle> {
        let now = Instant::now();
        let had_time = self.new.first_key_value();
        let had_time = had_time.is_some_and(|(_, idle)| idle.grace_ends() <= now);
        let are_many_new = self.new.len() >= (most / NEW_OF).max(1);
        let classes = [
            Some(Class::Stranger),
            had_time.then_some(Class::New),
            (!are_many_new).then_some(Class::Known),
        ];
        let classes = classes.into_iter().flatten();
        let quiet = |class| Some((class, self.quiet(class)?));
        let unread = |class| {
            let (number, idle) = self.line(class).first_key_value()?;
            (idle.grace_ends() <= now).then_some((class, *number))
        };
        let goes = quiet(Class::Stranger)
            .or_else(|| Some((Class::New, self.quiet_in_a_crowd(most)?)))
            .or_else(|| classes.clone().find_map(quiet))
            .or_else(|| classes.clone().find_map(unread))?;
        self.remove(goes)
    }

    /// The connection of `class` that has been idle for longest and has no unread bytes.
    fn quiet(&self, class: Class) -> Option<u64> {
        let mut first = self.line(class).iter().take(LOOKED_AT);
        let quiet = first.find(|(_, idle)| !socket::has_unread(&idle.stream));
        quiet.map(|(number, _)| *number)
    }

    /// The same among the new connections of the address that has the most of them, if it has too many.
    fn quiet_in_a_crowd(&self, most: usize) -> Option<u64> {
        let few = (most / CROWD_OF).max(NO_CROWD);
        let mut first = self.crowds.largest(few).take(LOOKED_AT);
        first.find(|number| {
            let idle = self.new.get(number);
            idle.is_some_and(|idle| !socket::has_unread(&idle.stream))
        })
    }
}

impl Idle {
    fn grace_ends(&self) -> Instant {
        self.since + GRACE
    }
}

impl Connection {
    pub(crate) fn begin_call(self: &Arc<Self>) -> Call {
        let mut state = self.connections.state();
        if *self.calls.borrow() == 0 {
            state.remove(self.idle_as());
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

    /// Records that one of its calls was authorized.
    pub(crate) fn is_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Ends the connection, with all its calls.
    pub(crate) fn end(&self) {
        self.end.notify_one();
    }

    /// Resolves when the connection must end.
    pub(crate) async fn to_end(&self) {
        self.end.notified().await;
    }

    fn idle_as(&self) -> (Class, u64) {
        *self.idle_as.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Self(connection) = self;
        let mut state = connection.connections.state();
        connection.calls.send_modify(|calls| *calls -= 1);
        if *connection.calls.borrow() == 0 {
            let class = match connection.is_known.load(Ordering::Relaxed) {
                true => Class::Known,
                false => Class::Stranger,
            };
            let idle = Idle {
                stream: Arc::clone(&connection.stream),
                from: connection.from,
                end: Arc::clone(&connection.end),
                since: Instant::now(),
            };
            let number = state.idle(class, idle);
            let idle_as = connection.idle_as.lock();
            *idle_as.unwrap_or_else(PoisonError::into_inner) = (class, number);
            connection.connections.changed.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.open -= 1;
        state.remove(self.idle_as());
        self.connections.counts.open.dec();
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let connections = Connections::new(bounds, Counts::default());
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
            connection.is_known();
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
