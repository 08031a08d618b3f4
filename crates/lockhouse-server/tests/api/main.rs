//! The HTTP API from outside: a server on a loopback port, over a store in memory, and callers who
//! write HTTP by hand or use the client.

// In a test that is how a thing is asserted.
#![allow(clippy::unwrap_used)]

mod access;
mod auditing;
mod bodies;
mod browser;
mod client;
mod client_again;
mod client_owners;
mod concurrency;
mod contract;
mod documentation;
mod ending;
mod endless;
mod flaky;
mod flood;
mod foreign;
mod full;
mod hanging_up;
mod http2;
mod listings;
mod nginx;
mod observing;
mod outages;
mod owners;
mod paths;
mod queries;
mod requests;
mod revoking;
mod semaphores;
mod server;
mod slow_callers;
mod slow_store;
mod stopping;
mod strictness;
mod templates;
mod tls;
mod tokens;
mod upkeep;
mod waiting;
