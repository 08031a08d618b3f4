//! The contests and their sides.

use super::places::Place;
use super::scale::{ENDED, HELD, Scale};
use super::side::Side;
use crate::contender::Kind;
use crate::shape::Shape;

/// Sides that take turns, in short rounds, so that whatever else the machine does meanwhile befalls
/// them alike.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub(super) name: &'static str,
    /// A description for people.
    pub(super) about: &'static str,
    pub(super) sides: Vec<Side>,
}

/// All of them, in the order in which they are run.
pub(super) fn all(scale: &Scale) -> Vec<Contest> {
    let mut contests = vec![
        hot(scale, 1, "hot-1", "one client"),
        hot(scale, 8, "hot-8", "one hot semaphore, 8 clients"),
        hot(scale, 64, "hot-64", "one hot semaphore, 64 clients"),
        hot(scale, 512, "hot-512", "one hot semaphore, 512 clients"),
        flat(scale),
        many(scale),
        orders(scale),
        two(scale),
        slots(scale),
        mariadb(scale),
    ];
    for (clients, name, about) in [
        (1, "postgres-1", "PostgreSQL, one client"),
        (
            64,
            "postgres-64",
            "PostgreSQL, one hot semaphore, 64 clients",
        ),
        (
            512,
            "postgres-512",
            "PostgreSQL, one hot semaphore, 512 clients",
        ),
    ] {
        contests.push(postgres(scale, clients, name, about));
    }
    contests.push(sqlite(scale));
    for (place, name, about) in [
        (
            Place::MySql,
            "noisy-mysql",
            "MySQL, 99 customers beside a noisy one",
        ),
        (
            Place::Postgres,
            "noisy-postgres",
            "PostgreSQL, 99 customers beside a noisy one",
        ),
        (
            Place::Sqlite,
            "noisy-file",
            "SQLite, 99 customers beside a noisy one",
        ),
    ] {
        contests.push(noisy(scale, place, name, about));
    }
    for (place, hold_ms, name, about) in [
        (
            Place::MySql,
            1,
            "line-mysql-1",
            "MySQL, 16 clients in line for one permit, held 1 ms",
        ),
        (
            Place::MySql,
            20,
            "line-mysql-20",
            "MySQL, 16 clients in line for one permit, held 20 ms",
        ),
        (
            Place::Postgres,
            1,
            "line-postgres-1",
            "PostgreSQL, 16 clients in line for one permit, held 1 ms",
        ),
        (
            Place::Postgres,
            20,
            "line-postgres-20",
            "PostgreSQL, 16 clients in line for one permit, held 20 ms",
        ),
    ] {
        contests.push(line(scale, place, hold_ms, name, about));
    }
    for (clients, name, about) in [
        (1, "redis-1", "Redis, one client"),
        (64, "redis-64", "Redis, one hot semaphore, 64 clients"),
        (512, "redis-512", "Redis, one hot semaphore, 512 clients"),
    ] {
        contests.push(redis(scale, clients, name, about));
    }
    contests
}

fn hot(scale: &Scale, clients: usize, name: &'static str, about: &'static str) -> Contest {
    let shape = scale.shape(clients);
    let mut sides = vec![
        Side::new("lockhouse", Kind::Lockhouse, Place::MySql, &shape),
        Side::new("article", Kind::Article, Place::MySql, &shape),
        Side::new("redis", Kind::Redis, Place::Redis, &shape),
        Side::new("redis-fsync", Kind::RedisFsync, Place::Redis, &shape),
        Side::new("etcd", Kind::Etcd, Place::Etcd, &shape),
    ];
    if clients == 1 {
        sides.push(Side::new("floor", Kind::Floor, Place::MySql, &shape));
    }
    if clients == 64 {
        sides.push(Side::new("http", Kind::Lockhouse, Place::MySql, &shape).servers(1));
    }
    Contest { name, about, sides }
}

fn flat(scale: &Scale) -> Contest {
    let empty = scale.shape(64);
    let full = Shape {
        held: scale.rows(HELD),
        ended: scale.rows(ENDED),
        ..empty.clone()
    };
    Contest {
        name: "flat",
        about: "100,000 held and 1,000,000 ended before, or nothing; 64 clients",
        sides: vec![
            Side::new("empty", Kind::Lockhouse, Place::MySql, &empty),
            Side::new("full", Kind::Lockhouse, Place::MySql, &full),
        ],
    }
}

fn many(scale: &Scale) -> Contest {
    let one = scale.shape(64);
    let many = Shape {
        semaphores: scale.semaphores(),
        ..one.clone()
    };
    Contest {
        name: "many",
        about: "load over 10,000 semaphores, or on one; 64 clients",
        sides: vec![
            Side::new("one", Kind::Lockhouse, Place::MySql, &one),
            Side::new("many", Kind::Lockhouse, Place::MySql, &many),
        ],
    }
}

/// Two engines, so that the order of names matters in the database and not only in one engine.
fn orders(scale: &Scale) -> Contest {
    let shape = Shape {
        semaphores: 6,
        each: 3,
        ..scale.shape(64)
    };
    Contest {
        name: "orders",
        about: "3 of 6 semaphores an ask, in random order; 64 clients",
        sides: vec![
            Side::new("lockhouse", Kind::Lockhouse, Place::MySql, &shape),
            Side::new("two", Kind::Lockhouse, Place::MySql, &shape).engines(2),
            Side::new("article", Kind::Article, Place::MySql, &shape),
        ],
    }
}

fn two(scale: &Scale) -> Contest {
    let shape = scale.shape(128);
    Contest {
        name: "two",
        about: "two servers on one database and one hot semaphore, or one; 128 clients in all",
        sides: vec![
            Side::new("one", Kind::Lockhouse, Place::MySql, &shape).servers(1),
            Side::new("two", Kind::Lockhouse, Place::MySql, &shape).servers(2),
        ],
    }
}

/// As many permits as there are clients, so that all slots are in use.
fn slots(scale: &Scale) -> Contest {
    let plain = Shape {
        capacity: Some(64),
        ..scale.shape(64)
    };
    let slotted = Shape {
        slots: true,
        ..plain.clone()
    };
    Contest {
        name: "slots",
        about: "a hot semaphore of capacity 64 with slots, or without; 64 clients",
        sides: vec![
            Side::new("plain", Kind::Lockhouse, Place::MySql, &plain),
            Side::new("slotted", Kind::Lockhouse, Place::MySql, &slotted),
        ],
    }
}

fn mariadb(scale: &Scale) -> Contest {
    let shape = scale.shape(64);
    Contest {
        name: "mariadb-64",
        about: "MariaDB, one hot semaphore, 64 clients",
        sides: vec![
            Side::new("lockhouse", Kind::Lockhouse, Place::MariaDb, &shape),
            Side::new("article", Kind::Article, Place::MariaDb, &shape),
        ],
    }
}

fn postgres(scale: &Scale, clients: usize, name: &'static str, about: &'static str) -> Contest {
    let shape = scale.shape(clients);
    let mut sides = vec![
        Side::new("lockhouse", Kind::Lockhouse, Place::Postgres, &shape),
        Side::new("article", Kind::Article, Place::Postgres, &shape),
        Side::new("advisory", Kind::Advisory, Place::Postgres, &shape),
    ];
    if clients == 1 {
        sides.push(Side::new("floor", Kind::Floor, Place::Postgres, &shape));
    }
    Contest { name, about, sides }
}

fn sqlite(scale: &Scale) -> Contest {
    let shape = scale.shape(64);
    Contest {
        name: "sqlite-64",
        about: "SQLite, one hot semaphore, 64 clients",
        sides: vec![
            Side::new("lockhouse", Kind::Lockhouse, Place::Sqlite, &shape),
            Side::new("single", Kind::Single, Place::Sqlite, &shape),
        ],
    }
}

/// Each of 99 customers is served every 0.1 s, so that half of the permits are in use. A customer with 1,000 waiters may
/// have two more at all times. A keyed line is kept in an engine, and by other code between two of them.
fn noisy(scale: &Scale, place: Place, name: &'static str, about: &'static str) -> Contest {
    let shape = Shape {
        hold_ms: 2,
        pause_ms: 100,
        ..scale.shape(99)
    };
    Contest {
        name,
        about,
        sides: vec![
            Side::new("without", Kind::Customers, place, &shape),
            Side::new("with", Kind::CustomersNoisy, place, &shape),
            Side::new("apart", Kind::CustomersNoisy, place, &shape).engines(2),
        ],
    }
}

/// The clients call one server, or as many each of several; or each has its own connection to etcd.
fn line(
    scale: &Scale,
    place: Place,
    hold_ms: u64,
    name: &'static str,
    about: &'static str,
) -> Contest {
    let shape = Shape {
        capacity: Some(1),
        hold_ms,
        ..scale.shape(16)
    };
    let servers = |name, many| Side::new(name, Kind::Lockhouse, place, &shape).servers(many);
    Contest {
        name,
        about,
        sides: vec![
            servers("one", 1),
            servers("two", 2),
            servers("four", 4),
            Side::new("etcd", Kind::Etcd, Place::Etcd, &shape),
        ],
    }
}

/// All with `appendfsync always`.
fn redis(scale: &Scale, clients: usize, name: &'static str, about: &'static str) -> Contest {
    let shape = scale.shape(clients);
    Contest {
        name,
        about,
        sides: vec![
            Side::new("lockhouse", Kind::Lockhouse, Place::Redis, &shape),
            Side::new("redis-fsync", Kind::RedisFsync, Place::Redis, &shape),
            Side::new("counter", Kind::RedisCounter, Place::Redis, &shape),
        ],
    }
}
