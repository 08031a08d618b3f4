//! How a server serves.

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
    /// The certificates for TLS. Without them the server speaks plain HTTP.
    pub tls: Option<Tls>,
    /// `/metrics` has gauges of the semaphores whose names begin with one of these; of the busiest if there are none.
    pub metrics_prefixes: Vec<String>,
    /// The metrics of the store in `/metrics`; without them it has none.
    pub store_metrics: Option<StoreMetrics>,
    /// Where the lines of the audit log go. Without it there is no audit log.
    pub audit: Option<AuditLog>,
    /// How many calls of one token may wait for room at once; 5,000 by default. Further calls are answered `overloaded`.
    pub waiters_per_token: usize,
    /// How many calls with tokens may be under way at once; 256 by default. One token may have three quarters of them.
    /// Further calls queue.
    pub calls: usize,
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
        }
    }
}
