//! How a server serves.

use std::time::Duration;

use crate::access::Auth;
use crate::audit::AuditLog;
use crate::store_metrics::StoreMetrics;
use crate::tls::Tls;

/// How [`serve_with`](crate::serve_with) serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether callers need a token.
    pub auth: Auth,
    /// Whether TLS ends at a trusted proxy, which says in `X-Forwarded-For` who calls.
    pub behind_proxy: bool,
    /// The certificates to speak TLS with; none to speak without.
    pub tls: Option<Tls>,
    /// `/metrics` has gauges of the semaphores whose names begin with one of these; of the busiest if there are none.
    pub metrics_prefixes: Vec<String>,
    /// What `/metrics` says of the store; nothing without it.
    pub store_metrics: Option<StoreMetrics>,
    /// Where the lines of the audit log go; none to write none.
    pub audit: Option<AuditLog>,
    /// How many calls of one token may wait for room at once; 5,000 by default. Further calls are answered `overloaded`.
    pub waiters_per_token: usize,
    /// How many calls of tokens may be under way at once, three quarters of them of one token; 256 by default. Further
    /// calls queue.
    pub calls: usize,
    /// How often a server that does the upkeep recounts all permits; never without.
    pub verify_every: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            auth: Auth::default(),
            behind_proxy: false,
            tls: None,
            metrics_prefixes: Vec::new(),
            store_metrics: None,
            audit: None,
            waiters_per_token: 5_000,
            calls: 256,
            verify_every: None,
        }
    }
}
