//! `lockhouse serve` with TLS, and the ways in which the command verifies it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::bounds::{half_sent, serve_on};
use crate::house::{Done, House, Running, until};
use lockhouse::{ConnectOptions, Lockhouse};
use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// The DNS name in the certificates, beside the address.
pub(super) const SERVER_NAME: &str = "lockhouse.internal";

/// A certificate authority of the test's own.
pub(super) struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Writes its own certificate, and a server's with its key.
    pub(super) fn issue(&self, house: &House, ca: &str) {
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1", SERVER_NAME].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        // OpenSSL takes a certificate for self-signed if its subject is that of its issuer.
        params
            .distinguished_name
            .push(DnType::CommonName, SERVER_NAME);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        fs::write(house.path(ca), self.0.pem()).unwrap();
        // In one piece each, as a program that renews certificates does it.
        for (file, pem) in [
            ("key.pem", key.serialize_pem()),
            ("cert.pem", certificate.pem()),
        ] {
            fs::write(house.path("new"), pem).unwrap();
            fs::rename(house.path("new"), house.path(file)).unwrap();
        }
    }
}

/// A server with TLS that listens there, and its URL on loopback.
pub(super) fn serve(house: &House, listen: &str, options: &[&str]) -> (Running, String) {
    let [certificate, key] = ["cert.pem", "key.pem"].map(|file| house.path(file));
    let files = [certificate.to_str().unwrap(), key.to_str().unwrap()];
    let certified = ["--tls-cert", files[0], "--tls-key", files[1]];
    let mut server =
        house.start(&[&["serve", "--listen", listen], &certified[..], options].concat());
    let line = server.line();
    let (_, port) = line.rsplit_once(':').expect(&line);
    assert!(line.contains(" on https://"), "{line}");
    let url = format!("https://127.0.0.1:{port}");
    (server, url)
}

/// The outcome of `lockhouse` with these arguments and this variable.
fn with(house: &House, url: &str, args: &[&str], variable: Option<(&str, &Path)>) -> Done {
    let mut command = house.command(&[&["--url", url], args].concat());
    command.envs(variable);
    command.output().unwrap().into()
}

#[test]
fn a_server_is_verified_by_a_file_a_variable_or_the_machines_own_roots() {
    let house = House::on_a_store();
    Ca::new().issue(&house, "ca.pem");
    house.text(&["create", "a", "1"]);
    let (_server, url) = serve(&house, "127.0.0.1:0", &[]);
    let ca = house.path("ca.pem");
    let by_flag = ["--ca-file", ca.to_str().unwrap(), "show", "a"];
    let shown = with(&house, &url, &by_flag, None);
    assert_eq!(shown.code, 0, "{shown:?}");
    // The latter is where the machine's own roots are.
    for variable in ["LOCKHOUSE_CA_FILE", "SSL_CERT_FILE"] {
        let shown = with(&house, &url, &["show", "a"], Some((variable, ca.as_path())));
        assert_eq!(shown.code, 0, "{variable}: {shown:?}");
    }
    let is_refused = |done: Done, advice: &str| {
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.stderr.contains(advice), "{done:?}");
        assert!(!done.stderr.contains("later"), "{done:?}");
    };
    is_refused(with(&house, &url, &["show", "a"], None), "--ca-file");
    let of_another_host = url.replace("127.0.0.1", "localhost");
    let by_name = with(&house, &of_another_host, &by_flag, None);
    is_refused(by_name, "a host that the certificate names");
    let (_plain, without) = house.serve("127.0.0.1:0");
    let encrypted = without.replace("http:", "https:");
    is_refused(
        with(&house, &encrypted, &by_flag, None),
        "does not speak TLS",
    );
    Ca::new().issue(&house, "other.pem");
    let other = house.path("other.pem");
    let by_another = ["--ca-file", other.to_str().unwrap(), "show", "a"];
    is_refused(with(&house, &url, &by_another, None), "is not trusted");
}

#[test]
fn a_hangup_has_the_certificates_read_again_and_drops_no_connection() {
    let house = House::on_a_store();
    Ca::new().issue(&house, "old.pem");
    house.text(&["create", "a", "1"]);
    house.text(&["acquire", "-s", "a", "--id", "x", "--ttl", "5m"]);
    let (mut server, url) = serve(&house, "127.0.0.1:0", &[]);
    let (old, new) = (house.path("old.pem"), house.path("new.pem"));
    let mut waiter = house.start(&[
        "--url",
        &url,
        "--ca-file",
        old.to_str().unwrap(),
        "acquire",
        "-s",
        "a",
        "--id",
        "y",
        "--ttl",
        "5m",
        "--wait",
        "5m",
    ]);
    let waits = || house.json(&["show", "a"])["waiting"] == 1;
    until("one waits", waits);
    let again = "the certificate files were read again";
    // The files have not changed: only the signal leads to this line.
    server.signal(Signal::SIGHUP);
    while !server.log_line().contains(again) {}
    Ca::new().issue(&house, "new.pem");
    server.signal(Signal::SIGHUP);
    while !server.log_line().contains(again) {}
    let by_new = ["--ca-file", new.to_str().unwrap(), "release", "x"];
    let released = with(&house, &url, &by_new, None);
    assert_eq!(released.code, 0, "{released:?}");
    // The connection that was open before goes on.
    waiter.close_stdin();
    let granted = waiter.end();
    assert_eq!(granted.code, 0, "{granted:?}");
    let by_old = ["--ca-file", old.to_str().unwrap(), "show", "a"];
    assert_ne!(with(&house, &url, &by_old, None).code, 0);
}

/// A server that may have 192 connections, which may all be taken by half handshakes.
#[tokio::test]
async fn a_caller_is_not_kept_waiting_by_a_thousand_half_handshakes() {
    let house = House::on_a_store();
    Ca::new().issue(&house, "ca.pem");
    house.text(&["create", "a", "1"]);
    let [certificate, key] = ["cert.pem", "key.pem"].map(|file| house.path(file));
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        certificate.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    let (_server, address) = serve_on(&house, "-n 256", &args);
    let client = || {
        let options = ConnectOptions::new().ca_file(house.path("ca.pem"));
        Lockhouse::connect_with(format!("https://{address}"), options)
    };
    client().await.unwrap().status("a").await.unwrap();
    // The begin of a record with a ClientHello.
    let _half = half_sent(&address, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]);
    let begun = Instant::now();
    client().await.unwrap().status("a").await.unwrap();
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(2), "{waited:?}");
}

#[test]
fn a_server_with_tls_and_a_token_listens_off_loopback() {
    let house = House::on_a_store();
    Ca::new().issue(&house, "ca.pem");
    let token = house.text(&["token", "create", "admin", "--grant", "admin:*"]);
    let (_server, url) = serve(&house, "0.0.0.0:0", &[]);
    let ca = house.path("ca.pem");
    let list = ["--url", &url, "--ca-file", ca.to_str().unwrap(), "list"];
    assert_ne!(house.done(&list).code, 0);
    let mut command = house.command(&list);
    let listed = command.env("LOCKHOUSE_TOKEN", token.trim()).output();
    let listed = Done::from(listed.unwrap());
    assert_eq!(listed.code, 0, "{listed:?}");
}
