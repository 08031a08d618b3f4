//! Fence gates on real servers: a writer whose hold another holder has had since is refused.

#![allow(clippy::unwrap_used)]

mod http;
mod redis;
mod sql;
