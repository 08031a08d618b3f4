//! Certificates of database servers, issued by the test, and how the URL's modes verify them.
//!
//! The certificate names `localhost`, so for a client that connects to `127.0.0.1` it is for another host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockhouse::liveness::{OwnerCheck, SqlCheck, Verdict};
use lockhouse::{Code, Lockhouse};
use lockhouse_testkit::place::{Place, text_of};
use lockhouse_testkit::private_server::PrivateServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// The files of a CA, of a certificate that it signed, and of a CA that signed nothing.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // PostgreSQL runs as another user, who must be able to read the folder.
        run("chmod", &["755"], folder.path());
        let files = Self(folder);
        let (ca, other) = (authority("right"), authority("other"));
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &ca).unwrap();
        fs::write(files.path("ca.pem"), ca.pem()).unwrap();
        fs::write(files.path("other.pem"), other.pem()).unwrap();
        fs::write(files.path("server.pem"), certificate.pem()).unwrap();
        fs::write(files.path("server.key"), key.serialize_pem()).unwrap();
        run("chmod", &["600"], &files.path("server.key"));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let status = Command::new(program).args(arguments).arg(path).status();
    assert!(status.unwrap().success(), "{program} {arguments:?}");
}

/// The names of a URL's parameters, by database.
struct Spelling {
    mode: &'static str,
    ca: &'static str,
    verify_ca: &'static str,
    verify_host: &'static str,
    /// A query of a check, which finds every owner alive.
    lives: &'static str,
}

const MYSQL: Spelling = Spelling {
    mode: "ssl-mode",
    ca: "ssl-ca",
    verify_ca: "verify_ca",
    verify_host: "verify_identity",
    lives: "SELECT ? IS NOT NULL",
};

const POSTGRES: Spelling = Spelling {
    mode: "sslmode",
    ca: "sslrootcert",
    verify_ca: "verify-ca",
    verify_host: "verify-full",
    lives: "SELECT $1::text IS NOT NULL",
};

/// A client that connects to `host`.
struct Client<'a> {
    place: &'a Place,
    spelling: &'a Spelling,
    host: &'a str,
}

impl Client<'_> {
    fn url(&self, ca: &str, mode: Option<&str>) -> String {
        let mut url = url::Url::parse(self.place.url()).unwrap();
        url.set_host(Some(self.host)).unwrap();
        url.query_pairs_mut().append_pair(self.spelling.ca, ca);
        if let Some(mode) = mode {
            url.query_pairs_mut().append_pair(self.spelling.mode, mode);
        }
        url.into()
    }

    async fn connects(&self, ca: &str, mode: Option<&str>) {
        let url = self.url(ca, mode);
        let lockhouse = Lockhouse::connect(&url).await;
        lockhouse.unwrap_or_else(|error| panic!("{url}: {error}"));
        // A check of owners follows the same rules, on its own connection.
        let check = SqlCheck::new(&url, self.spelling.lives).unwrap();
        let verdict = check.verdict(&"job-1".parse().unwrap()).await;
        assert_eq!(verdict, Verdict::Alive, "{url}");
    }

    async fn is_refused(&self, ca: &str, mode: Option<&str>, why: &str) {
        let url = self.url(ca, mode);
        let error = Lockhouse::connect(&url).await.map(drop).unwrap_err();
        assert!(error.to_string().contains(why), "{url}: {error}");
        assert_eq!(error.code(), Code::InvalidRequest, "{url}: {error}");
        let check = SqlCheck::new(&url, self.spelling.lives).unwrap();
        let verdict = check.verdict(&"job-1".parse().unwrap()).await;
        assert_eq!(verdict, Verdict::Unknown, "{url}");
    }
}

/// Checks every mode against a server with the certificate of `files`.
async fn each_mode_verifies_what_it_says(place: &Place, spelling: &Spelling, files: &Files) {
    let (ca, other) = (files.text("ca.pem"), files.text("other.pem"));
    let (verify_ca, verify_host) = (Some(spelling.verify_ca), Some(spelling.verify_host));
    let named = Client {
        place,
        spelling,
        host: "localhost",
    };
    let another = Client {
        host: "127.0.0.1",
        ..named
    };
    for mode in [None, verify_ca, verify_host] {
        named.connects(&ca, mode).await;
        named.is_refused(&other, mode, "is not trusted").await;
        another.is_refused(&other, mode, "is not trusted").await;
    }
    another.connects(&ca, verify_ca).await;
    for mode in [None, verify_host] {
        another.is_refused(&ca, mode, "is for another host").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_mysql_are_verified_as_the_mode_says() {
    let Some(server) = PrivateServer::start("mysql") else {
        return;
    };
    let files = Files::new();
    let place = server.place().await;
    // The server issues its own certificate at its first start. That names no host.
    let folder = text_of(&place, "SELECT @@datadir").await;
    let generated = Path::new(&folder).join("ca.pem").display().to_string();
    let client = Client {
        place: &place,
        spelling: &MYSQL,
        host: "localhost",
    };
    client.connects(&generated, Some("verify_ca")).await;
    client
        .is_refused(&generated, None, "is for another host")
        .await;
    let settings = [
        ("ssl_ca", "ca.pem"),
        ("ssl_cert", "server.pem"),
        ("ssl_key", "server.key"),
    ];
    for (setting, file) in settings {
        let set = format!("SET GLOBAL {setting}='{}'", files.text(file));
        server.set(&[&set]).await;
    }
    server.set(&["ALTER INSTANCE RELOAD TLS"]).await;
    each_mode_verifies_what_it_says(&place, &MYSQL, &files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_postgres_are_verified_as_the_mode_says() {
    let Some(server) = PrivateServer::start("postgres") else {
        return;
    };
    let files = Files::new();
    let place = server.place().await;
    // A file of root would have to belong to the server's group.
    if files.path("server.key").metadata().unwrap().uid() == 0 {
        run("chown", &["postgres"], &files.path("server.key"));
    }
    let certificate = files.text("server.pem");
    let settings = [
        ("ssl", "on".to_owned()),
        ("ssl_cert_file", certificate.clone()),
        ("ssl_key_file", files.text("server.key")),
    ];
    for (setting, value) in settings {
        let set = format!("ALTER SYSTEM SET {setting}='{value}'");
        server.set(&[&set]).await;
    }
    server.set(&["SELECT pg_reload_conf()"]).await;
    // New sessions show the settings that the server has read.
    while text_of(&place, "SHOW ssl_cert_file").await != certificate {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    each_mode_verifies_what_it_says(&place, &POSTGRES, &files).await;
}
