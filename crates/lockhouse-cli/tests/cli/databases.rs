//! The command on a database server.

use std::time::Duration;

use crate::house::{House, Running};
use lockhouse_testkit::database::Database;
use lockhouse_testkit::place::{self, Place};
use lockhouse_testkit::private_server::PrivateServer;
use nix::sys::signal::Signal;
use rusqlite::Connection;
use url::Url;

/// How many connections the database gives to the user of a test.
const CONNECTIONS: usize = 10;

/// The URL of `place` for a new user, who may have few connections.
async fn for_few_connections(place: &Place) -> String {
    let mut url = Url::parse(place.url()).unwrap();
    let user = format!("u{}", std::process::id());
    let admin = &mut Database::open(place.url()).await;
    let database = url.path().trim_start_matches('/').to_owned();
    let create = match url.scheme() {
        "mysql" => format!(
            "CREATE USER {user}@'%' WITH MAX_USER_CONNECTIONS {CONNECTIONS}; \
             GRANT ALL ON {database}.* TO {user}@'%'"
        ),
        _ => format!(
            "CREATE ROLE {user} LOGIN CONNECTION LIMIT {CONNECTIONS}; \
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}"
        ),
    };
    admin.run(&create).await;
    url.set_username(&user).unwrap();
    url.into()
}

async fn remove_user(place: &Place, url: &str) {
    let user = Url::parse(url).unwrap().username().to_owned();
    let drop = match url.starts_with("mysql") {
        true => format!("DROP USER {user}@'%'"),
        false => format!("DROP OWNED BY {user}; DROP ROLE {user}"),
    };
    Database::open(place.url()).await.run(&drop).await;
}

/// Permits are free: nobody waits for anything but a connection.
async fn forty_runs_share_ten_connections(place: Option<Place>) {
    let Some(place) = place else { return };
    House::at(place.url()).text(&["create", "a", "100"]);
    let url = for_few_connections(&place).await;
    let house = House::at(&url);
    let run = ["run", "-s", "a", "--wait", "60s", "--", "sleep", "12"];
    let runs: Vec<Running> = (0..40).map(|_| house.start(&run)).collect();
    let ends: Vec<_> = runs.into_iter().map(Running::end).collect();
    for done in ends {
        assert_eq!(done.code, 0, "{done:?}");
    }
    remove_user(&place, &url).await;
    place.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_runs_share_ten_connections_of_postgres() {
    forty_runs_share_ten_connections(place::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_runs_share_ten_connections_of_mysql() {
    forty_runs_share_ten_connections(place::mysql().await).await;
}

/// Longer than a call without a wait may take.
async fn a_run_waits_while_another_program_locks_the_semaphore(place: Option<Place>) {
    let Some(place) = place else { return };
    let house = House::at(place.url());
    house.text(&["create", "one", "1"]);
    let mut other = Database::open(place.url()).await;
    other.run("BEGIN").await;
    let lock = "UPDATE lockhouse_semaphore SET capacity = capacity";
    other.run(lock).await;
    let run = house.start(&["run", "-s", "one", "--", "true"]);
    tokio::time::sleep(Duration::from_secs(12)).await;
    other.run("COMMIT").await;
    let done = run.end();
    assert_eq!(done.code, 0, "{done:?}");
    place.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_while_another_program_locks_the_semaphore_on_mysql() {
    a_run_waits_while_another_program_locks_the_semaphore(place::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_while_another_program_locks_the_semaphore_on_postgres() {
    a_run_waits_while_another_program_locks_the_semaphore(place::postgres().await).await;
}

/// Longer than a call may take, and than a client of a server repeats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_while_another_program_locks_the_gap_of_its_session() {
    let Some(place) = place::mysql().await else {
        return;
    };
    let house = House::at(place.url());
    house.text(&["create", "a", "2"]);
    let (_server, url) = house.serve("127.0.0.1:0");
    let mut other = Database::open(place.url()).await;
    for statement in [
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION",
        "SELECT * FROM lockhouse_owner_session WHERE owner='a' FOR UPDATE",
    ] {
        other.run(statement).await;
    }
    let served = House::at(&url);
    let runs = [&house, &served].map(|house| house.start(&["run", "-s", "a", "--", "true"]));
    tokio::time::sleep(Duration::from_secs(22)).await;
    other.run("ROLLBACK").await;
    for run in runs {
        let done = run.end();
        assert_eq!(done.code, 0, "{done:?}");
    }
    place.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_database_is_migrated_without_a_warning() {
    for place in [place::postgres().await, place::mysql().await] {
        let Some(place) = place else { return };
        for url in [place.url(), &format!("{}?connections=2", place.url())] {
            let done = House::at(url).done(&["list"]);
            assert_eq!((done.code, &*done.stderr), (0, ""), "{done:?}");
        }
        place.clear().await;
    }
}

/// A read of one statement is no transaction, so nothing is rolled back after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_of_a_table_that_is_locked_whole_logs_no_warning() {
    let Some(place) = place::postgres().await else {
        return;
    };
    let house = House::at(place.url());
    house.text(&["create", "a", "1"]);
    let mut other = Database::open(place.url()).await;
    other.run("BEGIN").await;
    let lock = "LOCK TABLE lockhouse_semaphore IN ACCESS EXCLUSIVE MODE";
    other.run(lock).await;
    let show = house.start(&["show", "a"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    other.run("ROLLBACK").await;
    let done = show.end();
    assert_eq!((done.code, &*done.stderr), (0, ""), "{done:?}");
    place.clear().await;
}

/// The command says so too: it may be the only client there is.
async fn a_risk_is_logged(server: &PrivateServer, setting: &str) {
    let place = server.place().await;
    let done = House::at(place.url()).done(&["list"]);
    assert_eq!(done.code, 0, "{done:?}");
    let is_warning = |line: &&str| line.contains("WARN") && line.contains(setting);
    let warnings = done.stderr.lines().filter(is_warning).count();
    assert_eq!(warnings, 1, "{done:?}");
    let mut served = House::at(place.url()).start(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(served.line().starts_with("lockhouse serves "));
    served.signal(Signal::SIGTERM);
    let log = served.end().stderr;
    assert_eq!(log.lines().filter(is_warning).count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_mysql_that_may_lose_commits_are_logged() {
    let Some(server) = PrivateServer::start("mysql") else {
        return;
    };
    let set = "SET GLOBAL innodb_flush_log_at_trx_commit=2, GLOBAL sync_binlog=0";
    server.set(&[set]).await;
    let settings = "innodb_flush_log_at_trx_commit=2 and sync_binlog=0";
    a_risk_is_logged(&server, settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_postgres_that_may_lose_commits_are_logged() {
    let Some(server) = PrivateServer::start("postgres") else {
        return;
    };
    let place = server.place().await;
    server.set(&["ALTER SYSTEM SET fsync=off"]).await;
    server.set(&["SELECT pg_reload_conf()"]).await;
    // New sessions have what the server has read.
    while place::text_of(&place, "SHOW fsync").await != "off" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    a_risk_is_logged(&server, "fsync=off").await;
}

#[test]
fn a_newer_schema_is_a_setting_to_mend() {
    let house = House::on_a_store();
    house.text(&["create", "a", "1"]);
    let newer = "INSERT INTO lockhouse_schema_version (version, applied_at) VALUES (99, 0)";
    let file = Connection::open(house.path("permits.db")).unwrap();
    file.execute_batch(newer).unwrap();
    let done = house.done(&["list"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.stderr.contains("use a newer one"), "{done:?}");
    assert!(!done.stderr.contains("later"), "{done:?}");
}

#[test]
fn a_database_that_does_not_exist_is_a_setting_to_mend() {
    let variable = "LOCKHOUSE_TEST_POSTGRES_URL";
    let Some(server) = place::server_url(variable) else {
        return;
    };
    let nowhere = server.replace("/postgres", "/nowhere");
    let begun = std::time::Instant::now();
    let done = House::at(&nowhere).done(&["list"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(3));
}

/// Whatever is wrong with a URL, no error repeats its user or its password.
#[test]
fn no_error_shows_the_credentials_of_a_url() {
    let house = House::on_a_store();
    for url in [
        "mysqll://ann:s3cr3t@db/x",
        "mysql://ann:12/s3cr3t@db/x",
        "mysql://ann:12?s3cr3t@db/x",
        "postgres://ann:12#s3cr3t@db/x",
        "sqlite://ann:s3cr3t@db/x",
        "ann:s3cr3t@db/x",
        "http://ann:12/s3cr3t@db",
        "http://ann:12?s3cr3t@db",
        "postgres://db/x?password=s3cr3t",
        "redis://ann:12/s3cr3t@db",
        "redis://:12?s3cr3t@db",
        "rediss://:s3cr3t@db:port/0",
        "redis://db/0?password=s3cr3t",
        "redis://:s3cr3t@db/x",
    ] {
        let check = format!("*={url}");
        let query = format!("*={url} SELECT 1");
        let parameter = format!("*={url} SELECT ?");
        for args in [
            &["--url", url, "list"][..],
            &[url],
            &["list", url, "--frob"],
            &["serve", "--check", &check],
            &["serve", "--check", &query],
            &["serve", "--check", &parameter],
            &["serve", "--listen", url],
        ] {
            for output in ["table", "json"] {
                let done = house.done(&[&["-o", output], args].concat());
                assert_eq!(done.code, 64, "{args:?} {done:?}");
                let text = format!("{done:?}");
                assert!(!text.contains("s3cr3t"), "{args:?} {text}");
            }
        }
    }
}

/// A CA that is given means that the server is verified, wherever it is given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_in_the_environment_is_not_ignored_on_postgres() {
    let Some(place) = place::postgres().await else {
        return;
    };
    let house = House::at(place.url());
    let ca = house.path("ca.pem");
    let other_ca = include_str!("../../../lockhouse-stores/tests/servers/other_ca.pem");
    std::fs::write(&ca, other_ca).unwrap();
    let empty = house.path("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let (ca, empty) = (ca.to_str().unwrap(), empty.to_str().unwrap());
    let list = |environment: &[(&str, &str)]| {
        let mut command = house.command(&["list"]);
        command.envs(environment.iter().copied());
        Running::new(command).end()
    };
    assert_eq!(list(&[]).code, 0);
    assert_eq!(list(&[("PGSSLMODE", "disable")]).code, 0);
    // The server has no TLS, or a certificate of another CA.
    let done = list(&[("PGSSLROOTCERT", ca)]);
    assert_ne!(done.code, 0, "{done:?}");
    let refused: [(&[(&str, &str)], &str); 4] = [
        (
            &[("PGSSLROOTCERT", empty)],
            "PGSSLROOTCERT has no certificate in PEM",
        ),
        (
            &[("PGSSLROOTCERT", "/no/such.pem")],
            "PGSSLROOTCERT can't be read",
        ),
        (&[("PGSSLCERT", "/no/such.pem")], "PGSSLCERT can't be read"),
        (
            &[("PGSSLROOTCERT", ca), ("PGSSLMODE", "prefer")],
            "verifies nothing",
        ),
    ];
    for (environment, why) in refused {
        let done = list(environment);
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.stderr.contains(why), "{done:?}");
        // A check of owners is a client of a database, too.
        let other = format!("*={} SELECT $1::text IS NOT NULL", place.url());
        let mut command = house.command(&["serve", "--listen", "127.0.0.1:0", "--check", &other]);
        command.env(
            "LOCKHOUSE_URL",
            format!("sqlite:{}", house.path("x.db").display()),
        );
        command.envs(environment.iter().copied());
        let done = Running::new(command).end();
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.stderr.contains(why), "{done:?}");
    }
    place.clear().await;
}
