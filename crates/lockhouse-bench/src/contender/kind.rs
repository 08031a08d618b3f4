//! The contenders by name.

use super::Contender;
use super::advisory::Advisory;
use super::article::Article;
use super::customers::Customers;
use super::etcd::Etcd;
use super::floor::Floor;
use super::lockhouse::LockhouseContender;
use super::redis::{Lock, Redis};
use super::single::Single;
use crate::Failed;

/// The contender under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// An engine in this process on a database's URL, or clients of a server on its http:// URL
    Lockhouse,
    /// The same; each client is a customer with 2 permits of a template, and 10 permits are for all
    Customers,
    /// The same beside one more customer, who always has ten times as many waiters as there are customers
    CustomersNoisy,
    /// The usual algorithm, a connection a client and a transaction an acquire: mysql://, postgres://
    Article,
    /// One autocommitted UPDATE: mysql://, postgres://
    Floor,
    /// SET NX PX and a script that deletes, in memory only: redis://
    Redis,
    /// The same with appendfsync always
    RedisFsync,
    /// A counter that two scripts change, with appendfsync always: redis://
    RedisCounter,
    /// pg_advisory_lock: postgres://
    Advisory,
    /// etcd's lock service: http://
    Etcd,
    /// SQLite with a commit for each acquire and each release: sqlite:PATH
    Single,
}

impl Kind {
    /// The contender on `urls`, of which only Lockhouse may have several, and several `engines` on
    /// each.
    ///
    /// # Errors
    /// When a URL makes no sense for it, or the server does not answer.
    pub async fn open(self, urls: &[String], engines: usize) -> Result<Box<dyn Contender>, Failed> {
        let url = urls.first().ok_or("a contender needs a URL")?;
        let is_lockhouse = matches!(
            self,
            Kind::Lockhouse | Kind::Customers | Kind::CustomersNoisy
        );
        if !is_lockhouse && (urls.len() > 1 || engines > 1) {
            return Err("only lockhouse can have several URLs or engines".into());
        }
        Ok(match self {
            Kind::Lockhouse => Box::new(LockhouseContender::connect(urls, engines).await?),
            Kind::Customers | Kind::CustomersNoisy => {
                let inner = LockhouseContender::connect(urls, engines).await?;
                Box::new(Customers::of(inner, self == Kind::CustomersNoisy))
            }
            Kind::Article => Box::new(Article::at(url)?),
            Kind::Floor => Box::new(Floor::at(url)?),
            Kind::Redis => Box::new(Redis::at(url, Lock::Key, false)?),
            Kind::RedisFsync => Box::new(Redis::at(url, Lock::Key, true)?),
            Kind::RedisCounter => Box::new(Redis::at(url, Lock::Counter, true)?),
            Kind::Advisory => Box::new(Advisory::at(url)),
            Kind::Etcd => Box::new(Etcd::at(url)?),
            Kind::Single => Box::new(Single::at(url)?),
        })
    }
}
