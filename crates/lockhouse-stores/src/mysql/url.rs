//! Parses `mysql://` URLs.

use lockhouse_core::store::Error;
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use url::Url;

use super::MySqlServer;
use crate::misconfigured::configuration;
use crate::sql::{Host, Hosts, Location, Pem, check_files, connections, names_a, parsed};

/// The parameters that the driver reads, in the driver's spelling.
const DRIVER_PARAMETERS: [&str; 9] = [
    "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey", "socket",
];

/// The parameters for verification, trusted authorities and files.
const MODE: [&str; 2] = ["ssl-mode", "sslmode"];
const CA: [&str; 2] = ["ssl-ca", "sslca"];
const CERTIFICATE: [&str; 2] = ["ssl-cert", "sslcert"];
const KEY: [&str; 2] = ["ssl-key", "sslkey"];

/// The parameters of a URL, for messages.
const TAKES: &str = "connections, ssl-mode, ssl-ca, ssl-cert, ssl-key and socket";

/// Reads `mysql://USER:PASSWORD@HOST:PORT/DATABASE?…`.
pub(super) fn parse(text: &str) -> Result<Location<MySqlServer>, Error> {
    let url = parsed(text)?;
    let connections = connections(&url, &DRIVER_PARAMETERS, TAKES)?;
    if !url.has_authority() {
        return Err(names_no_database());
    }
    let driver = options(&url)?;
    let database = driver.get_database().unwrap_or_default();
    if database.is_empty() || database.contains('/') {
        return Err(names_no_database());
    }
    let display = format!("{}:{}/{database}", driver.get_host(), driver.get_port());
    // The driver looks an IPv6 address up by name while it has its brackets.
    let host = driver.get_host().trim_matches(['[', ']']).to_owned();
    // The session is set in one round trip, by `connection`.
    let driver = driver
        .host(&host)
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .set_names(false)
        .disable_statement_logging();
    let hosts = Hosts::new(vec![Host { driver, display }]);
    Ok(Location { hosts, connections })
}

/// The driver's options from `url`. A CA means that the server's certificate is verified.
pub(super) fn options(url: &Url) -> Result<MySqlConnectOptions, Error> {
    // The driver's own error repeats values.
    let options = MySqlConnectOptions::from_url(url).map_err(|_| {
        configuration(
            "the URL's ssl-mode, user, password or database is malformed; ssl-mode is disabled, \
             preferred, required, verify_ca or verify_identity",
        )
    })?;
    let has_ca = names_a(url, &CA);
    let options = match options.get_ssl_mode() {
        // Anybody can get a certificate of a public CA for some host.
        MySqlSslMode::VerifyCa if !has_ca => {
            return Err(configuration(
                "ssl-mode=verify_ca needs ssl-ca; name the CA that signed the server's \
                 certificate, or write ssl-mode=verify_identity",
            ));
        }
        MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity => options,
        _ if !has_ca => options,
        _ if names_a(url, &MODE) => {
            return Err(configuration(
                "the URL has ssl-ca and an ssl-mode that verifies nothing; \
                 write ssl-mode=verify_identity or verify_ca, or leave ssl-ca out",
            ));
        }
        _ => options.ssl_mode(MySqlSslMode::VerifyIdentity),
    };
    check_files(url, &CA, Pem::Authorities)?;
    check_files(url, &CERTIFICATE, Pem::Certificate)?;
    check_files(url, &KEY, Pem::Key)?;
    Ok(options)
}

fn names_no_database() -> Error {
    let shape = "the URL names no database; it reads mysql://USER@HOST/DATABASE";
    configuration(shape)
}

#[cfg(test)]
mod tests {
    use lockhouse_core::store::Kind;

    use super::*;

    fn refused(url: &str) -> String {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), Kind::Configuration);
        error.to_string()
    }

    #[test]
    fn a_url_says_where_and_how() {
        let location =
            parse("mariadb://app:secret@db:3307/permits?connections=4&ssl-mode=disabled");
        let location = location.unwrap();
        assert_eq!(location.hosts.display(), "db:3307/permits");
        assert_eq!(location.connections, 4);
    }

    #[test]
    fn an_ipv6_address_has_no_brackets_for_the_driver() {
        let location = parse("mysql://app@[::1]/permits").unwrap();
        let host = location.hosts.current();
        assert_eq!(host.driver.get_host(), "::1");
        assert_eq!(host.display, "[::1]:3306/permits");
    }

    #[test]
    fn a_url_without_a_database_is_refused() {
        for url in [
            "mysql://app@db",
            "mysql://app@db/",
            "mysql://app@db/a/b",
            "mysql:permits",
            "mysql:/permits",
        ] {
            assert!(refused(url).contains("names no database"), "{url}");
        }
    }

    #[test]
    fn bad_parameters_are_refused_without_showing_the_password() {
        let refusals = [
            refused("mysql://app:secret@db/permits?charset=latin1"),
            refused("mysql://app:secret@db/permits?connections=0"),
            refused("mysql://app:secret@db/permits?ssl-mode=perhaps"),
            refused("mysql://app:secret@db/permits?ssl-mode=verify_ca"),
            refused("mysql://app:secret@db:port/permits"),
        ];
        for refusal in refusals {
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn a_mode_that_ignores_the_host_needs_a_ca() {
        let url = "mysql://app@db/permits?ssl-mode=verify_ca";
        assert!(refused(url).contains("needs ssl-ca"));
        let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/other_ca.pem");
        parse(&format!("{url}&ssl-ca={ca}")).unwrap();
        parse("mysql://app@db/permits?ssl-mode=verify_identity").unwrap();
    }
}
