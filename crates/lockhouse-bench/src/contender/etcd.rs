//! etcd's lock service. A lock is a key on the client's lease. etcd agrees on every lock and unlock, and writes it to the
//! disk. Each client has a connection and a lease. If the load has room for all clients, each has its own lock, so none
//! waits. If one client at a time may hold, all want the same lock, and etcd serves them in the order of arrival.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::{Client, Contender, Failure};
use crate::Failed;
use crate::measured::Server;
use crate::shape::{Ask, Shape};

/// Longer than any run.
const LEASE_S: i64 = 3_600;

// As in etcd's own .proto files, but for what is not used.

#[derive(Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Message)]
struct Nothing {}

#[derive(Message)]
struct StatusResponse {
    #[prost(string, tag = "2")]
    version: String,
}

/// etcd.
#[derive(Debug)]
pub(super) struct Etcd {
    endpoint: Endpoint,
    /// The prefix of the names of its locks: a lock of a run that was killed is kept until its lease ends.
    prefix: String,
    /// Whether all clients want one lock.
    is_shared: AtomicBool,
}

struct EtcdClient {
    etcd: Grpc<Channel>,
    name: Vec<u8>,
    lease: i64,
    key: Vec<u8>,
}

impl Etcd {
    /// On the member of `url`.
    ///
    /// # Errors
    /// When the URL makes no sense.
    pub(super) fn at(url: &str) -> Result<Self, Failed> {
        Ok(Self {
            endpoint: Endpoint::from_shared(url.to_owned())?.tcp_nodelay(true),
            prefix: format!("bench-{:08x}", fastrand::u32(..)),
            is_shared: AtomicBool::new(false),
        })
    }

    async fn connect(&self) -> Result<Grpc<Channel>, Failed> {
        Ok(Grpc::new(self.endpoint.connect().await?))
    }
}

async fn call<Q, A>(etcd: &mut Grpc<Channel>, path: &'static str, ask: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    etcd.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static(path);
    let answer = etcd.unary(Request::new(ask), path, ProstCodec::default());
    Ok(answer.await?.into_inner())
}

#[async_trait]
impl Contender for Etcd {
    fn name(&self) -> String {
        "etcd".into()
    }

    async fn prepare(&self, shape: &Shape) -> Result<(), Failed> {
        let is_shared = match shape.capacity {
            None => false,
            Some(1) => true,
            Some(_) => {
                return Err("etcd's lock has one holder: --capacity is 1, or not said".into());
            }
        };
        self.is_shared.store(is_shared, Ordering::Relaxed);
        Ok(())
    }

    async fn client(&self, number: usize) -> Result<Box<dyn Client>, Failed> {
        let mut etcd = self.connect().await?;
        let grant = LeaseGrantRequest { ttl: LEASE_S };
        let lease: LeaseGrantResponse =
            call(&mut etcd, "/etcdserverpb.Lease/LeaseGrant", grant).await?;
        let name = match self.is_shared.load(Ordering::Relaxed) {
            true => self.prefix.clone(),
            false => format!("{}-{number}", self.prefix),
        };
        Ok(Box::new(EtcdClient {
            etcd,
            name: name.into_bytes(),
            lease: lease.id,
            key: Vec::new(),
        }))
    }

    async fn server(&self) -> Result<Server, Failed> {
        let mut etcd = self.connect().await?;
        let status: StatusResponse =
            call(&mut etcd, "/etcdserverpb.Maintenance/Status", Nothing {}).await?;
        // It has no other way, unless it is started with --unsafe-no-fsync.
        let durability = BTreeMap::from([("fsync".to_owned(), "each commit".to_owned())]);
        Ok(Server {
            version: format!("etcd {}", status.version),
            durability,
        })
    }

    async fn clear(&self) -> Result<(), Failed> {
        Ok(())
    }
}

#[async_trait]
impl Client for EtcdClient {
    async fn acquire(&mut self, _: &Ask<'_>) -> Result<(), Failure> {
        let ask = LockRequest {
            name: self.name.clone(),
            lease: self.lease,
        };
        let locked: LockResponse = call(&mut self.etcd, "/v3lockpb.Lock/Lock", ask)
            .await
            .map_err(failure)?;
        self.key = locked.key;
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let key = std::mem::take(&mut self.key);
        let unlocked: Result<Nothing, Status> = call(
            &mut self.etcd,
            "/v3lockpb.Lock/Unlock",
            UnlockRequest { key },
        )
        .await;
        unlocked.map(drop).map_err(failure)
    }
}

fn failure(status: Status) -> Failure {
    Failure::new(status.code().to_string(), status)
}
