//! Fence gates on real servers: a writer whose hold somebody else has had since is refused.

#![allow(clippy::unwrap_used)]

mod http;
mod redis;
mod sql;
