//! Which connection makes room when there are too many.
//!
//! Four classes of those that may do so are kept apart:
//!
//! 1. [`Class::Stranger`]: none of its calls was let in. It goes first.
//! 2. [`Class::New`]: it had no call yet. It has a second for its first call, and is a stranger then.
//! 3. [`Class::Asking`]: a call is under way, and none was let in. It has a second from its first call on, as a call that is let in
//!    leaves this class sooner. A caller may send its body slowly, not read its answer, or make call after call.
//! 4. [`Class::Known`]: a call by it was let in, and none is under way. It goes last, and not at all while a quarter of all
//!    connections are new or asking: the next of those makes room within a second. So a flood of
//!    connections by which no calls are let in does not end those of holders.
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
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::crowds::Crowds;
use crate::socket;

/// How long a connection is kept before its first call, from a stranger's first call on, and while it has unread bytes.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// No known connection is evicted while one of this many connections is new or asking, or more.
const NEW_OF: usize = 4;

/// If one address has more than one of this many connections as new ones, these are evicted without their second. One
/// address may always have `NO_CROWD` new ones.
const CROWD_OF: usize = 16;
const NO_CROWD: usize = 8;

/// How many connections of a class are checked for one without unread bytes.
const LOOKED_AT: usize = 16;

/// The connections that may make room, by class.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    next: u64,
    strangers: Line,
    new: Line,
    /// The new connections by address.
    crowds: Crowds,
    asking: Line,
    known: Line,
}

/// Connections of a class, the one that has been in it for longest first.
type Line = BTreeMap<u64, Candidate>;

/// A connection that may make room: one without a call, or whose caller is a stranger.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) stream: Arc<TcpStream>,
    /// The network of its caller.
    pub(crate) from: IpAddr,
    /// Ends the connection.
    pub(crate) end: Arc<Notify>,
    pub(crate) since: Instant,
}

/// The server's knowledge of a connection's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Stranger,
    New,
    Asking,
    Known,
}

impl Lines {
    fn line(&self, class: Class) -> &Line {
        match class {
            Class::Stranger => &self.strangers,
            Class::New => &self.new,
            Class::Asking => &self.asking,
            Class::Known => &self.known,
        }
    }

    fn line_mut(&mut self, class: Class) -> &mut Line {
        match class {
            Class::Stranger => &mut self.strangers,
            Class::New => &mut self.new,
            Class::Asking => &mut self.asking,
            Class::Known => &mut self.known,
        }
    }

    /// A number behind all others.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds a connection to the line of its class, at the place of `number`.
    pub(crate) fn add(&mut self, class: Class, number: u64, idle: Candidate) {
        if class == Class::New {
            self.crowds.insert(idle.from, number);
        }
        self.line_mut(class).insert(number, idle);
    }

    pub(crate) fn remove(&mut self, (class, number): (Class, u64)) -> Option<Candidate> {
        let idle = self.line_mut(class).remove(&number)?;
        if class == Class::New {
            self.crowds.remove(idle.from, number);
        }
        Some(idle)
    }

    /// Removes the connection that is to make room. There may be `most` connections in all.
    pub(crate) fn evict(&mut self, most: usize) -> Option<Candidate> {
        let now = Instant::now();
        let had_time = self.new.first_key_value();
        let had_time = had_time.is_some_and(|(_, idle)| idle.grace_ends() <= now);
        let are_many_new = self.new.len() + self.asking.len() >= (most / NEW_OF).max(1);
        let classes = [
            Some(Class::Stranger),
            had_time.then_some(Class::New),
            Some(Class::Asking),
            (!are_many_new).then_some(Class::Known),
        ];
        let classes = classes.into_iter().flatten();
        let had_its_time = |class| {
            let (number, idle) = self.line(class).first_key_value()?;
            (idle.grace_ends() <= now).then_some((class, *number))
        };
        let quiet = |class| match class {
            // Bytes that were sent behind the call are no reason to keep it.
            Class::Asking => had_its_time(class),
            _ => Some((class, self.quiet(class)?)),
        };
        let goes = quiet(Class::Stranger)
            .or_else(|| Some((Class::New, self.quiet_in_a_crowd(most)?)))
            .or_else(|| classes.clone().find_map(quiet))
            .or_else(|| classes.clone().find_map(had_its_time))?;
        self.remove(goes)
    }

    /// When the next connection may make room, unless something changes before.
    pub(crate) fn next_look(&self) -> Instant {
        let lines = [&self.strangers, &self.new, &self.asking, &self.known];
        let first = lines.into_iter().filter_map(|line| line.values().next());
        let now = Instant::now();
        let ends = first
            .map(Candidate::grace_ends)
            .filter(|ends| *ends > now)
            .min();
        ends.unwrap_or(now + GRACE)
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

impl Candidate {
    fn grace_ends(&self) -> Instant {
        self.since + GRACE
    }
}
