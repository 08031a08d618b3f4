//! The contenders that can be put under load: Lockhouse, and the systems that it is compared with,
//! one file each.

mod advisory;
mod article;
mod contract;
mod counted;
mod customers;
mod database;
mod etcd;
mod floor;
mod kind;
mod lockhouse;
mod redis;
pub(crate) mod settings;
mod single;

pub use contract::{Client, Contender, Failure};
pub use database::Database;
pub use kind::Kind;
pub use lockhouse::LockhouseContender;
