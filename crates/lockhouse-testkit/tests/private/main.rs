//! Stores on servers that are set up in ways that the shared ones are not.

mod crowded_redis;
mod full_redis;
mod killed_redis;
mod packets;
mod pgbouncer;
mod queries;
mod redis_locks;
mod settings;
mod tls;
