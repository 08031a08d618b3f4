//! Reads the version and the settings of the server when a connection is opened.

use lockhouse_core::store::Error;
use redis::aio::MultiplexedConnection;
use redis::{InfoDict, RedisResult};

use crate::misconfigured::configuration;

/// The parts of INFO that a connection checks, and how often the server writes its log to disk.
#[derive(Debug)]
pub(super) struct Info {
    version: String,
    policy: String,
    max_memory: u64,
    has_log: bool,
    /// `None` if the server does not say.
    syncs: Option<String>,
}

impl Info {
    pub(super) async fn read(connection: &mut MultiplexedConnection) -> RedisResult<Self> {
        let info: InfoDict = redis::cmd("INFO").query_async(connection).await?;
        let text = |key| info.get::<String>(key).unwrap_or_default();
        let mut info = Self {
            version: text("redis_version"),
            policy: text("maxmemory_policy"),
            max_memory: info.get("maxmemory").unwrap_or(0),
            has_log: text("aof_enabled") == "1",
            syncs: None,
        };
        let mut config = redis::cmd("CONFIG");
        let config = config.arg("GET").arg("appendfsync");
        // Hosted servers refuse CONFIG.
        if let Ok(answer) = config.query_async::<Vec<String>>(connection).await {
            info.syncs = answer.into_iter().nth(1);
        }
        Ok(info)
    }

    /// Checks that the server can keep permits.
    pub(super) fn check(&self, display: &str) -> Result<(), Error> {
        let major = self.version.split('.').next();
        let major: u32 = major.and_then(|text| text.parse().ok()).unwrap_or(0);
        if major < 7 {
            let version = &self.version;
            return Err(configuration(format!(
                "{display} is Redis {version:?}; it takes Redis 7 or Valkey, or newer"
            )));
        }
        if self.max_memory > 0 && self.policy.starts_with("allkeys") {
            let policy = &self.policy;
            return Err(configuration(format!(
                "{display} forgets keys when its memory is full (maxmemory-policy {policy}); set \
                 maxmemory-policy noeviction"
            )));
        }
        Ok(())
    }

    /// How the server may lose answered commits, if it can.
    pub(super) fn risk(&self) -> Option<String> {
        let set = "; set appendonly yes and appendfsync always";
        match self.syncs.as_deref() {
            _ if !self.has_log => Some(format!(
                "the server forgets grants when it stops (appendonly no){set}"
            )),
            Some("always") | None => None,
            Some(syncs) => Some(format!(
                "the server may forget grants when it or its machine crashes (appendfsync {syncs}){set}"
            )),
        }
    }
}
