//! An error that an operator has to correct is reported at once, and not as an unavailable server.

use std::time::{Duration, Instant};

use lockhouse_core::store::{Error, Kind};
use lockhouse_stores::open;

use crate::database::{Database, acquire, define, on_every_server, one};
use crate::user::User;

on_every_server! {
    a_certificate_that_no_named_authority_signed_is_refused,
    an_authority_is_no_use_without_verification,
    an_unreadable_file_of_the_url_is_reported,
    a_file_of_the_url_without_its_pem_is_reported,
    a_user_that_may_only_read_is_reported,
    idle_connections_are_closed,
}

/// It signed no server's certificate.
const OTHER_CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/other_ca.pem");

/// The names of the parameters that say what is verified, and by which authority.
fn parameters(database: &Database) -> (&'static str, &'static str) {
    let mode = database.sql("ssl-mode", "sslmode");
    (mode, database.sql("ssl-ca", "sslrootcert"))
}

async fn fails(database: &Database, parameters: &str) -> Error {
    let url = database.url(database.admin(), database.address(), parameters);
    match open(&url) {
        Ok(store) => store.ready().await.unwrap_err(),
        Err(error) => error,
    }
}

/// MariaDB 10.11 speaks TLS only where somebody gave it a certificate, and is refused without.
async fn a_certificate_that_no_named_authority_signed_is_refused(database: &Database) {
    let (mode, ca) = parameters(database);
    for mode in ["", &format!("&{mode}=verify{}", database.sql("_ca", "-ca"))] {
        let begun = Instant::now();
        let error = fails(database, &format!("{ca}={OTHER_CA}{mode}")).await;
        assert_eq!(error.kind(), Kind::Configuration, "{error}");
        let told = error.to_string();
        let speaks_tls = !told.contains("does not support TLS");
        assert_eq!(told.contains("is not trusted"), speaks_tls, "{told}");
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}

async fn an_authority_is_no_use_without_verification(database: &Database) {
    let (mode, ca) = parameters(database);
    for value in [
        database.sql("preferred", "prefer"),
        database.sql("required", "require"),
        database.sql("disabled", "disable"),
    ] {
        let error = fails(database, &format!("{mode}={value}&{ca}={OTHER_CA}")).await;
        assert_eq!(error.kind(), Kind::Configuration, "{error}");
        assert!(error.to_string().contains("verifies nothing"), "{error}");
    }
}

async fn an_unreadable_file_of_the_url_is_reported(database: &Database) {
    let (mode, ca) = parameters(database);
    let verify = database.sql("verify_ca", "verify-ca");
    let error = fails(database, &format!("{mode}={verify}&{ca}=/nowhere/ca.pem")).await;
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains(ca), "{error}");
}

async fn a_file_of_the_url_without_its_pem_is_reported(database: &Database) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let empty = file("empty", "");
    let words = file("words", "no certificate");
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let damaged = file("damaged", damaged);
    let folder = folder.path().display().to_string();
    let ca = database.sql("ssl-ca", "sslrootcert");
    let certificate = database.sql("ssl-cert", "sslcert");
    let key = database.sql("ssl-key", "sslkey");
    for (key, file, problem) in [
        (ca, &empty, "has no certificate in PEM"),
        (ca, &words, "has no certificate in PEM"),
        (ca, &damaged, "has a certificate that is damaged"),
        (ca, &folder, "can't be read"),
        (certificate, &empty, "has no certificate in PEM"),
        (key, &words, "has no private key in PEM"),
        (key, &OTHER_CA.to_owned(), "has no private key in PEM"),
    ] {
        let begun = Instant::now();
        let error = fails(database, &format!("{key}={file}")).await;
        assert_eq!(error.kind(), Kind::Configuration, "{error}");
        let told = format!("the file of {key} {problem}");
        assert!(error.to_string().contains(&told), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}

async fn a_user_that_may_only_read_is_reported(database: &Database) {
    let store = database.migrated().await;
    one(&store, define("a", 1)).await.unwrap().unwrap();
    let user = User::with_password(database, "SELECT", "").await;
    let store = open(&user.url("")).unwrap();
    store.ready().await.unwrap();
    let error = one(&store, acquire("x", &["a"])).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Configuration, "{error}");
    assert!(error.to_string().contains("GRANT"), "{error}");
    drop(store);
    user.remove().await;
}

/// A process that renews every ten seconds leaves its place to others in between.
async fn idle_connections_are_closed(database: &Database) {
    let store = database.migrated().await;
    let ready = (0..4).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.ready().await })
    });
    for ready in ready.collect::<Vec<_>>() {
        ready.await.unwrap().unwrap();
    }
    let mut observer = database.session().await;
    let count = database.sql(
        "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db=DATABASE() AND id<>CONNECTION_ID()",
        "SELECT COUNT(*) FROM pg_stat_activity \
         WHERE datname=current_database() AND pid<>pg_backend_pid()",
    );
    assert!(observer.number(count).await > 0);
    // Four calls within a moment may be followed by others, a single one now and then is not.
    for (calls, closed_within) in [(0, Duration::from_secs(5)), (1, Duration::from_secs(2))] {
        for _ in 0..calls {
            tokio::time::sleep(Duration::from_secs(5)).await;
            store.ready().await.unwrap();
        }
        let begun = Instant::now();
        while observer.number(count).await > 0 {
            assert!(begun.elapsed() < closed_within, "they are kept");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    for _ in 0..6 {
        store.ready().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(observer.number(count).await > 0, "none is kept");
}
