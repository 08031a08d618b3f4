//! The usual locks on Redis. Each client has a connection.
//!
//! - A key: `SET key token NX PX ttl`, and a script that deletes the key if it still has the token. Each client has its
//!   own key, so nobody waits.
//! - A counter: one script adds 1 unless the counter has reached the capacity, another subtracts 1. All clients
//!   share it. It knows no holder and nothing expires.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{IntoConnectionInfo, Script, Value};

use super::{Client, Contender, Failure};
use crate::Failed;
use crate::measured::Server;
use crate::shape::{Ask, Shape};

const TTL_MS: u64 = 30_000;

const DELETE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) \
                      else return 0 end";

const COUNT: &str = "if tonumber(redis.call('get',KEYS[1]) or '0')>=tonumber(ARGV[1]) then return 0 end \
                     return redis.call('incr',KEYS[1])";

/// The settings by which the server keeps what it has answered.
const SETTINGS: [&str; 3] = ["appendonly", "appendfsync", "save"];

/// The counter of all clients.
const COUNTER: &str = "bench-counter";

/// A lock on Redis, as durable as told.
#[derive(Debug)]
pub(super) struct Redis {
    client: redis::Client,
    lock: Lock,
    fsync: bool,
    /// The settings that the server had before.
    settings: Mutex<BTreeMap<String, String>>,
    /// Of the counter.
    capacity: AtomicU32,
}

/// The kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Key,
    Counter,
}

struct CounterClient {
    connection: MultiplexedConnection,
    count: Script,
    capacity: u32,
}

struct RedisClient {
    connection: MultiplexedConnection,
    delete: Script,
    key: String,
    token: String,
}

impl Redis {
    /// On the server of `url`; with `fsync`, every command is on the disk before it is answered.
    ///
    /// # Errors
    /// When the URL makes no sense.
    pub(super) fn at(url: &str, lock: Lock, fsync: bool) -> Result<Self, Failed> {
        let plain = TcpSettings::default().set_nodelay(true);
        let server = url.into_connection_info()?.set_tcp_settings(plain);
        Ok(Self {
            client: redis::Client::open(server)?,
            lock,
            fsync,
            settings: Mutex::default(),
            capacity: AtomicU32::new(0),
        })
    }

    async fn set(&self, name: &str, value: &str) -> Result<(), Failed> {
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg(name).arg(value);
        let () = set.query_async(&mut connection).await?;
        Ok(())
    }
}

#[async_trait]
impl Contender for Redis {
    fn name(&self) -> String {
        let fsync = match self.fsync {
            true => "appendfsync always",
            false => "no fsync",
        };
        match self.lock {
            Lock::Key => format!("redis, {fsync}"),
            Lock::Counter => format!("redis counter, {fsync}"),
        }
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        self.capacity.store(shape.capacity(), Ordering::Relaxed);
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let had = settings(&mut connection, &SETTINGS).await?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = had;
        let () = redis::cmd("DEL")
            .arg(COUNTER)
            .query_async(&mut connection)
            .await?;
        if self.fsync {
            self.set("appendfsync", "always").await?;
            self.set("appendonly", "yes").await
        } else {
            // Nor is the memory written out now and then.
            self.set("save", "").await?;
            self.set("appendonly", "no").await
        }
    }

    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed> {
        let connection = self.client.get_multiplexed_async_connection().await?;
        if self.lock == Lock::Counter {
            let count = Script::new(COUNT);
            let capacity = self.capacity.load(Ordering::Relaxed);
            return Ok(Box::new(CounterClient {
                connection,
                count,
                capacity,
            }));
        }
        Ok(Box::new(RedisClient {
            connection,
            delete: Script::new(DELETE),
            key: format!("bench-{number}"),
            token: String::new(),
        }))
    }

    async fn server(&self) -> Result<Server, Failed> {
        let names: &[_] = match self.fsync {
            true => &["appendonly", "appendfsync"],
            false => &["appendonly", "save"],
        };
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        server(&mut connection, names).await
    }

    async fn clear(&self) -> Result<(), Failed> {
        let had =
            std::mem::take(&mut *self.settings.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, value) in had {
            self.set(&name, &value).await?;
        }
        Ok(())
    }
}

/// The version and the durability settings of the server at `url`, as it reports them.
///
/// # Errors
/// When it does not answer.
pub(super) async fn server_of(url: &str) -> Result<Server, Failed> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    server(&mut connection, &["appendonly", "appendfsync"]).await
}

/// Deletes the keys of that `pattern` on the server of `url`.
///
/// # Errors
/// When it does not answer.
pub(super) async fn delete(url: &str, pattern: &str) -> Result<(), Failed> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor)
            .arg("MATCH")
            .arg(pattern)
            .arg("COUNT")
            .arg(1_000);
        let (next, keys): (String, Vec<String>) = scan.query_async(&mut connection).await?;
        if !keys.is_empty() {
            let mut unlink = redis::cmd("UNLINK");
            let () = unlink.arg(keys).query_async(&mut connection).await?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

async fn server(connection: &mut MultiplexedConnection, names: &[&str]) -> Result<Server, Failed> {
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("server").query_async(connection).await?;
    let version = |of: &str| info.lines().find_map(|line| line.strip_prefix(of));
    let version = match version("valkey_version:") {
        Some(version) => format!("Valkey {version}"),
        None => format!("Redis {}", version("redis_version:").unwrap_or_default()),
    };
    let values = settings(connection, names).await?.into_iter();
    let values = values.map(|(name, value)| match value.as_str() {
        "" => (name, "never".to_owned()),
        _ => (name, value),
    });
    Ok(Server {
        version,
        durability: values.collect(),
    })
}

async fn settings(
    connection: &mut MultiplexedConnection,
    names: &[&str],
) -> Result<BTreeMap<String, String>, Failed> {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg(names);
    Ok(get.query_async(connection).await?)
}

#[async_trait]
impl Client for CounterClient {
    async fn acquire(&mut self, _: &Ask<'_>) -> Result<(), Failure> {
        let mut count = self.count.key(COUNTER);
        let counted: i64 = count
            .arg(self.capacity)
            .invoke_async(&mut self.connection)
            .await
            .map_err(failure)?;
        match counted {
            0 => Err(Failure::new("exhausted", "all permits are taken")),
            _ => Ok(()),
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let mut count = redis::cmd("DECR");
        let count = count.arg(COUNTER).query_async(&mut self.connection);
        count.await.map_err(failure)
    }
}

#[async_trait]
impl Client for RedisClient {
    async fn acquire(&mut self, ask: &Ask<'_>) -> Result<(), Failure> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(ask.external_id);
        set.arg("NX").arg("PX").arg(TTL_MS);
        let set: Value = set
            .query_async(&mut self.connection)
            .await
            .map_err(failure)?;
        if set != Value::Okay {
            return Err(Failure::new("exhausted", "somebody else has the key"));
        }
        self.token = ask.external_id.to_owned();
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let mut delete = self.delete.key(&self.key);
        let deleted: i64 = delete
            .arg(&self.token)
            .invoke_async(&mut self.connection)
            .await
            .map_err(failure)?;
        match deleted {
            1 => Ok(()),
            _ => Err(Failure::new("lost", "the key was no longer ours")),
        }
    }
}

fn failure(error: redis::RedisError) -> Failure {
    Failure::new("error", error)
}
