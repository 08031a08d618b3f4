//! Stores on private servers with unusual settings.

mod crowded_redis;
mod full_redis;
mod killed_redis;
mod packets;
mod pgbouncer;
mod queries;
mod redis_locks;
mod settings;
mod tls;
