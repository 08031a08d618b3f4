//! The usual lock on Redis: `SET key token NX PX ttl`, and a script that deletes the key if it
//! still has the token. Each client has a connection, and a key of its own, so nobody waits.

use std::collections::BTreeMap;

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

/// Redis, as durable as told.
#[derive(Debug)]
pub(super) struct Redis {
    client: redis::Client,
    fsync: bool,
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
    pub(super) fn at(url: &str, fsync: bool) -> Result<Self, Failed> {
        let plain = TcpSettings::default().set_nodelay(true);
        let server = url.into_connection_info()?.set_tcp_settings(plain);
        Ok(Self {
            client: redis::Client::open(server)?,
            fsync,
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
        match self.fsync {
            true => "redis, appendfsync always".into(),
            false => "redis, no fsync".into(),
        }
    }

    async fn prepare(&self, _: &Shape) -> Result<(), Failed> {
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
        Ok(Box::new(RedisClient {
            connection: self.client.get_multiplexed_async_connection().await?,
            delete: Script::new(DELETE),
            key: format!("bench-{number}"),
            token: String::new(),
        }))
    }

    async fn server(&self) -> Result<Server, Failed> {
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await?;
        let version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"));
        let mut durability = BTreeMap::new();
        let names: &[_] = match self.fsync {
            true => &["appendonly", "appendfsync"],
            false => &["appendonly", "save"],
        };
        for name in names {
            let values: BTreeMap<String, String> = redis::cmd("CONFIG")
                .arg("GET")
                .arg(*name)
                .query_async(&mut connection)
                .await?;
            let values = values
                .into_iter()
                .map(|(name, value)| match value.as_str() {
                    "" => (name, "never".to_owned()),
                    _ => (name, value),
                });
            durability.extend(values);
        }
        Ok(Server {
            version: format!("Redis {}", version.unwrap_or_default()),
            durability,
        })
    }

    async fn clear(&self) -> Result<(), Failed> {
        self.set("appendonly", "no").await
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
