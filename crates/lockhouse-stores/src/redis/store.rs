//! The store itself.

use std::fmt;

use lockhouse_core::SemaphoreName;
use lockhouse_core::store::Error;

use super::connection::Connections;
use super::keys::Keys;
use super::url;
use crate::lapsed::Looks;

/// Keeps permits on a Redis or Valkey server.
///
/// - **Clock**: the server's, read by the script that reads the rows. A batch that takes more than
///   2 s from that read to its write begins again.
/// - **Lock**: none. A batch whose rows were changed by another begins again. After 24 tries, or 5 s, it gives up
///   with [`Kind::Conflict`](lockhouse_core::store::Kind::Conflict). Of the batches that meet, one always succeeds.
/// - **Durability**: with `appendonly yes` and `appendfsync always` a commit is on the server's disk when it is answered. A
///   replica that takes over may lack the last commits; see the documentation of the stores.
/// - **Cancellation**: a call whose future is dropped may still take effect.
/// - **Server**: Redis 7 or Valkey, or newer; one primary, with or without replicas. All keys have the hash tag of the
///   namespace.
///
/// ```
/// use lockhouse_stores::Redis;
///
/// let store = Redis::open("redis://127.0.0.1:6379/0?namespace=permits")?;
/// # Ok::<(), lockhouse_core::store::Error>(())
/// ```
pub struct Redis {
    pub(super) connections: Connections,
    pub(super) keys: Keys,
    pub(super) looks: Looks<SemaphoreName>,
}

impl Redis {
    /// A store on the server of `redis://USER:PASSWORD@HOST:PORT/DATABASE?namespace=NAME`, or `rediss://` with TLS. The namespace
    /// is `lockhouse` unless the URL says otherwise.
    ///
    /// It does not connect yet.
    ///
    /// # Errors
    /// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) if the URL is malformed.
    pub fn open(url: &str) -> Result<Self, Error> {
        let location = url::parse(url)?;
        Ok(Self {
            keys: Keys::new(&location.namespace),
            connections: Connections::new(location),
            looks: Looks::default(),
        })
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis")
            .field(&self.connections.display)
            .finish()
    }
}
