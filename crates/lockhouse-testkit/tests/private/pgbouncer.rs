//! PgBouncer between Lockhouse and PostgreSQL.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse::store::Kind;
use lockhouse_testkit::place::{Place, on_server, server_url};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

const POSTGRES: &str = "LOCKHOUSE_TEST_POSTGRES_URL";

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// PgBouncer's user, as it refuses to run as root.
const USER: &str = "postgres";

#[tokio::test]
async fn sessions_that_are_pooled_by_transaction_are_refused() {
    for mode in ["transaction", "statement"] {
        let Some((place, pooler)) = behind(mode).await else {
            return;
        };
        let store = lockhouse_stores::open(&pooler.url(&place)).unwrap();
        let error = store.ready().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Configuration, "{error}");
        assert!(error.to_string().contains("pool_mode=session"), "{error}");
        drop(pooler);
        place.clear().await;
    }
}

/// Other clients use the server's sessions before.
#[tokio::test]
async fn sessions_that_are_pooled_whole_are_used() {
    let Some((place, pooler)) = behind("session").await else {
        return;
    };
    for _ in 0..3 {
        let lockhouse = lockhouse::Lockhouse::connect(pooler.url(&place)).await;
        let lockhouse = lockhouse.unwrap();
        lockhouse.define("a", 1).await.unwrap();
        let permit = lockhouse.semaphore("a").acquire().await.unwrap();
        assert!(permit.release().await.unwrap().now);
    }
    drop(pooler);
    place.clear().await;
}

/// A database, and a pooler before it. `None` if either is missing.
async fn behind(mode: &str) -> Option<(Place, Pooler)> {
    let server = server_url(POSTGRES)?;
    if !std::path::Path::new(PROGRAM).exists() {
        assert!(
            std::env::var_os("LOCKHOUSE_TEST_FULL").is_none(),
            "PgBouncer is not installed, and a full run leaves nothing out; use scripts/test"
        );
        // Written past the test harness's capture, so that people see it.
        let _ = writeln!(std::io::stderr(), "left out: PgBouncer is not installed");
        return None;
    }
    let place = on_server(&server).await;
    let pooler = Pooler::start(&server, mode).await;
    Some((place, pooler))
}

/// A PgBouncer before the server that all tests share.
struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    async fn start(server: &str, mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let server = url::Url::parse(server).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .unwrap()
            .port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\nlogfile =\npidfile =\n",
            server.port().unwrap(),
            server.username(),
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(PROGRAM);
        if is_root() {
            command.args(["-u", USER]);
        }
        let child = command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pooler = Self {
            child,
            port,
            _folder: folder,
        };
        pooler.until_ready().await;
        pooler
    }

    async fn until_ready(&mut self) {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
        let options = url.parse::<sqlx::postgres::PgConnectOptions>().unwrap();
        let options = options.extra_float_digits(None);
        let begun = Instant::now();
        while let Err(error) = PgConnection::connect_with(&options).await {
            let ended = self.child.try_wait().unwrap();
            let is_slow = begun.elapsed() > Duration::from_secs(20);
            assert!(ended.is_none() && !is_slow, "{ended:?} {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The URL of `place` through the pooler.
    fn url(&self, place: &Place) -> String {
        let mut url = url::Url::parse(place.url()).unwrap();
        url.set_port(Some(self.port)).unwrap();
        url.set_query(Some("sslmode=disable"));
        url.into()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}
