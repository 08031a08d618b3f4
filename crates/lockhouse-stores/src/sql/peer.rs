//! Finds out which kind of server is at an address where the driver cannot connect.
//!
//! MySQL's server speaks first and PostgreSQL's waits for the client. So a URL of the wrong kind
//! looks like a server that hangs, which would be retried for as long as a call lasts.

use std::time::Duration;

use lockhouse_core::store::{Error, Kind};
use sqlx::Database;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::driver::Driver;
use super::host::Host;

/// How long a MySQL server may take for its first word.
const FIRST_WORD: Duration = Duration::from_millis(500);

/// How long all of it may take.
const PROBE: Duration = Duration::from_secs(2);

/// PostgreSQL's SSLRequest: its length and its code. The answer is one byte, `S` or `N`.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The final error, if the server at `host` is known to be of another kind than the URL says.
pub(crate) async fn of_another_kind<D: Driver>(host: &Host<D>) -> Option<Error> {
    let address = host.address();
    let is = timeout(PROBE, kind(address)).await.ok().flatten()?;
    let expected = <D::Database as Database>::NAME;
    if is == expected {
        return None;
    }
    let scheme = is.to_lowercase().replace("postgresql", "postgres");
    let text = format!(
        "{address} is a {is} server, and the URL is for {expected}; write {scheme}://… for it, \
         or the port of your {expected} server"
    );
    Some(Error::new(Kind::Configuration, text))
}

async fn kind(address: &str) -> Option<&'static str> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let mut greeting = [0; 5];
    match timeout(FIRST_WORD, stream.read_exact(&mut greeting)).await {
        // The first packet, of protocol 10; or an error in place of it.
        Ok(Ok(_)) => matches!(greeting[3..], [0, 10 | 255]).then_some("MySQL"),
        Ok(Err(_)) => None,
        Err(_) => {
            stream.write_all(&SSL_REQUEST).await.ok()?;
            let answer = stream.read_u8().await.ok()?;
            matches!(answer, b'S' | b'N').then_some("PostgreSQL")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lockhouse_core::store::Store as _;
    use tokio::net::TcpListener;

    use super::*;

    /// A server that says `first` to each caller, and `then` to what it is sent.
    async fn server(first: &'static [u8], then: &'static [u8]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut callers = Vec::new();
            while let Ok((mut caller, _)) = listener.accept().await {
                callers.push(tokio::spawn(async move {
                    let _ = caller.write_all(first).await;
                    let mut asked = [0; 8];
                    while caller.read_exact(&mut asked).await.is_ok() && asked == SSL_REQUEST {
                        let _ = caller.write_all(then).await;
                    }
                    std::future::pending::<()>().await;
                }));
            }
        });
        port
    }

    const MYSQL: &[u8] = b"\x4a\0\0\0\x0a8.0.36\0";

    #[cfg(feature = "mysql")]
    #[tokio::test]
    async fn a_mysql_url_at_a_postgres_port_is_refused_at_once() {
        let port = server(b"", b"N").await;
        let store = crate::MySql::open(&format!("mysql://app@127.0.0.1:{port}/x")).unwrap();
        let begun = Instant::now();
        let refused = store.ready().await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Configuration, "{refused}");
        let expected =
            format!("127.0.0.1:{port} is a PostgreSQL server, and the URL is for MySQL;");
        assert!(refused.to_string().starts_with(&expected), "{refused}");
        assert!(begun.elapsed() < Duration::from_secs(3));
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_postgres_url_at_a_mysql_port_is_refused_at_once() {
        let port = server(MYSQL, b"").await;
        for mode in ["prefer", "disable"] {
            let url = format!("postgres://app@127.0.0.1:{port}/x?sslmode={mode}");
            let store = crate::Postgres::open(&url).unwrap();
            let begun = Instant::now();
            let refused = store.ready().await.unwrap_err();
            assert_eq!(refused.kind(), Kind::Configuration, "{refused}");
            let text = refused.to_string();
            assert!(text.contains("write mysql://… for it"), "{text}");
            assert!(begun.elapsed() < Duration::from_secs(3));
        }
    }

    /// It may be frozen, or slow.
    #[cfg(feature = "mysql")]
    #[tokio::test]
    async fn a_server_that_says_nothing_may_answer_later() {
        let port = server(b"", b"").await;
        let store = crate::MySql::open(&format!("mysql://app@127.0.0.1:{port}/x")).unwrap();
        let silent = store.ready().await.unwrap_err();
        assert_eq!(silent.kind(), Kind::Unavailable, "{silent}");
    }
}
