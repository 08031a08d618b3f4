//! Lockhouse over HTTP: the API under `/v1`, its metrics, and a page to look at.
//!
//! A server keeps no state that matters: run as many as you like on one database.
//! [`openapi.json`](OPENAPI) describes the API, and the server serves it too.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lockhouse::Lockhouse;
//! use tokio::net::TcpListener;
//!
//! let lockhouse = Lockhouse::connect("memory:").await?;
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("http://{}", listener.local_addr()?);
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let server = tokio::spawn(lockhouse_server::serve(lockhouse, listener, stopped));
//!
//! let client = Lockhouse::connect(url).await?;
//! client.define("backup-slots", 10).await?;
//! drop(stop);
//! server.await??;
//! # Ok(())
//! # }
//! ```

mod access;
mod answer;
mod audit;
mod audited;
mod body;
mod connection;
mod connections;
mod console;
mod crowds;
mod descriptors;
mod ending;
mod eviction;
mod failure;
mod gauges;
mod health;
mod held;
mod metrics;
mod openapi;
mod options;
mod origin;
mod owners;
mod paging;
mod path;
mod peer;
mod percent;
mod query;
mod rate;
mod requests;
mod router;
mod semaphores;
mod serve;
mod shares;
mod socket;
mod stopping;
mod store_metrics;
mod templates;
mod text_format;
mod tls;
mod tokens;
mod traced;

pub use access::Auth;
pub use audit::AuditLog;
pub use descriptors::raise_open_files_limit;
pub use openapi::OPENAPI;
pub use options::Options;
pub use router::router;
pub use serve::{serve, serve_with};
pub use store_metrics::StoreMetrics;
pub use tls::{Tls, TlsFiles};
