//! The faults by name, and the faults that each store can have.

use std::fmt;

use super::topology::Topology;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// kill -9 of a client.
    KillClient,
    /// kill -9 of a server.
    KillServer,
    /// kill -9 of the database.
    KillDatabase,
    /// The database is stopped as its operator would, and started again.
    RestartDatabase,
    /// At a COMMIT, the connection is closed.
    CommitCut,
    /// At a COMMIT, the client that sent it is killed.
    CommitKillClient,
    /// At a COMMIT, the server that sent it is killed.
    CommitKillServer,
    /// At a COMMIT, the database is killed.
    CommitKillDatabase,
    /// HTTP replies are lost.
    LostReplies,
    /// HTTP replies come late.
    LateReplies,
    /// HTTP requests come twice.
    RepeatedRequests,
    /// HTTP replies come twice.
    RepeatedReplies,
    /// All connections are closed, and no new ones open.
    Cut,
    /// Nothing gets through in one direction.
    OneWay,
    /// Existing connections stay silent for good. New connections work.
    HalfOpen,
    /// Data gets through a few bytes at a time.
    Slow,
    /// The data that gets through begins with garbage.
    Garbled,
    /// Connections are closed in the middle of a packet.
    ClosedMidPacket,
    /// SIGSTOP of a client.
    StopClient,
    /// SIGSTOP of a server.
    StopServer,
    /// SIGSTOP of the database.
    StopDatabase,
    /// A client's clock is set.
    ClockClient,
    /// A server's clock is set.
    ClockServer,
    /// The database's clock is set.
    ClockDatabase,
    /// A greedy process has all connections.
    Connections,
    /// The database takes no writes.
    ReadOnly,
    /// The disk is full.
    DiskFull,
    /// A process locks rows in odd orders, and rolls back.
    LockStorm,
}

use Fault::*;

/// All of them, with their names.
pub const ALL: [(Fault, &str); 28] = [
    (KillClient, "kill-client"),
    (KillServer, "kill-server"),
    (KillDatabase, "kill-database"),
    (RestartDatabase, "restart-database"),
    (CommitCut, "commit-cut"),
    (CommitKillClient, "commit-kill-client"),
    (CommitKillServer, "commit-kill-server"),
    (CommitKillDatabase, "commit-kill-database"),
    (LostReplies, "lost-replies"),
    (LateReplies, "late-replies"),
    (RepeatedRequests, "repeated-requests"),
    (RepeatedReplies, "repeated-replies"),
    (Cut, "cut"),
    (OneWay, "one-way"),
    (HalfOpen, "half-open"),
    (Slow, "slow"),
    (Garbled, "garbled"),
    (ClosedMidPacket, "closed-mid-packet"),
    (StopClient, "stop-client"),
    (StopServer, "stop-server"),
    (StopDatabase, "stop-database"),
    (ClockClient, "clock-client"),
    (ClockServer, "clock-server"),
    (ClockDatabase, "clock-database"),
    (Connections, "connections"),
    (ReadOnly, "read-only"),
    (DiskFull, "disk-full"),
    (LockStorm, "lock-storm"),
];

/// The faults that do not apply to a store, and why. On SQLite, faults of links affect only the links to servers.
const LEFT_OUT: [(&str, &[Fault], &str); 5] = [
    (
        "sqlite",
        &[KillDatabase, RestartDatabase, StopDatabase],
        "the store is in the processes of clients and servers, which are killed and stopped",
    ),
    (
        "sqlite",
        &[CommitCut, CommitKillDatabase, Connections],
        "nobody connects to it",
    ),
    (
        "sqlite",
        &[ClockClient, ClockServer],
        "its clock is that of the machine that all its processes are on: clock-database moves it",
    ),
    ("redis", &[LockStorm], "it locks nothing"),
    ("valkey", &[LockStorm], "it locks nothing"),
];

/// The faults that a cluster can have. A fault of the database is a fault of one of its nodes.
const ON_A_CLUSTER: [Fault; 4] = [KillServer, KillDatabase, StopDatabase, ReadOnly];

impl Fault {
    /// The fault of that name.
    pub fn named(name: &str) -> Option<Self> {
        let named = ALL.iter().find(|(_, known)| *known == name);
        named.map(|(fault, _)| *fault)
    }

    /// Why `store` can't have the fault, if it can't.
    pub fn left_out(self, store: &str) -> Option<&'static str> {
        if Topology::named(store).is_some() && !ON_A_CLUSTER.contains(&self) {
            return Some("only servers and nodes of a cluster fail");
        }
        let left_out = LEFT_OUT
            .iter()
            .find(|(of, faults, _)| *of == store && faults.contains(&self));
        left_out.map(|(_, _, why)| *why)
    }

    /// Whether the fault is one of a link, to the database or to a server.
    pub fn is_of_a_link(self) -> bool {
        matches!(
            self,
            Cut | OneWay | HalfOpen | Slow | Garbled | ClosedMidPacket
        )
    }

    /// Whether a proxy causes the fault. A proxy causes one fault at a time.
    fn is_of_a_proxy(self) -> bool {
        let of_http = matches!(
            self,
            LostReplies | LateReplies | RepeatedRequests | RepeatedReplies
        );
        of_http || self.is_of_a_link() || self.is_at_commit() || self == Connections
    }

    /// Whether one of these two faults could undo the other.
    pub fn is_in_the_way_of(self, other: Self) -> bool {
        let is_never_to_come = |commit: Self, other| commit.is_at_commit() && other == ReadOnly;
        (self.is_of_the_database() && other.is_of_the_database())
            || (self.is_of_a_proxy() && other.is_of_a_proxy())
            || is_never_to_come(self, other)
            || is_never_to_come(other, self)
    }

    /// Whether the fault sets a clock.
    pub fn is_of_a_clock(self) -> bool {
        matches!(self, ClockClient | ClockServer | ClockDatabase)
    }

    /// Whether the fault happens at a COMMIT.
    pub fn is_at_commit(self) -> bool {
        matches!(
            self,
            CommitCut | CommitKillClient | CommitKillServer | CommitKillDatabase
        )
    }

    /// Whether the fault is one of the database itself. Two of these at once would obstruct each other.
    pub fn is_of_the_database(self) -> bool {
        matches!(
            self,
            KillDatabase
                | RestartDatabase
                | CommitKillDatabase
                | StopDatabase
                | ClockDatabase
                | Connections
                | ReadOnly
                | DiskFull
                | LockStorm
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = ALL.iter().find(|(fault, _)| fault == self);
        f.write_str(named.map_or("?", |(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        for (fault, name) in ALL {
            assert_eq!(Fault::named(name), Some(fault));
            assert_eq!(fault.to_string(), name);
        }
    }
}
