//! Parses `redis://` URLs.

use lockhouse_core::store::Error;
use redis::{Client, IntoConnectionInfo, RedisResult};
use url::Url;

use crate::misconfigured::configuration;
use crate::refuse_misplaced;

/// The default namespace.
const NAMESPACE: &str = "lockhouse";

/// The address of a server, and the namespace of the store's keys.
pub(super) struct Location {
    /// Contains the password.
    pub(super) client: Client,
    /// For messages: `HOST:PORT/DATABASE`, without user and password.
    pub(super) display: String,
    pub(super) namespace: String,
}

/// Reads `redis://USER:PASSWORD@HOST:PORT/DATABASE?namespace=NAME`.
pub(super) fn parse(text: &str) -> Result<Location, Error> {
    let mut url =
        Url::parse(text).map_err(|error| configuration("the URL is malformed").caused_by(error))?;
    refuse_misplaced(url.as_str())?;
    let mut namespace = NAMESPACE.to_owned();
    for (key, value) in url.query_pairs() {
        if key != "namespace" {
            // The message does not repeat the parameter, which may be part of a password.
            let problem = "the URL has a parameter other than namespace; leave it out";
            return Err(configuration(problem));
        }
        namespace = value.into_owned();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=64).contains(&namespace.len()) || !namespace.bytes().all(is_plain) {
        let problem = "namespace is 1 to 64 letters, digits, dashes, dots and underscores";
        return Err(configuration(problem));
    }
    url.set_query(None);
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| {
        configuration("the URL names no host; it reads redis://HOST:PORT/DATABASE")
    })?;
    let database = url.path().trim_matches('/');
    let database = if database.is_empty() { "0" } else { database };
    let display = format!("{host}:{}/{database}", url.port().unwrap_or(6379));
    // A client with TLS takes the process's provider of ciphers, and panics if there is none.
    if url.scheme() == "rediss" {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    // The driver's own error would repeat values, such as a password.
    let problem = if database.parse::<i64>().is_err() {
        "the URL's database is not a number; it reads redis://HOST:PORT/DATABASE"
    } else {
        "the URL's user, password, host or fragment is malformed; it reads \
         redis://USER:PASSWORD@HOST:PORT/DATABASE"
    };
    let client = client(url).map_err(|_| configuration(problem))?;
    Ok(Location {
        client,
        display,
        namespace,
    })
}

/// A client that does not begin with CLIENT SETINFO. A server with too many connections answers
/// only the first command, and the driver would ignore that answer.
fn client(url: Url) -> RedisResult<Client> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Client::open(info.set_redis_settings(settings))
}
