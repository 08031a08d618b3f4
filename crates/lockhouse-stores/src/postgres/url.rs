//! Parses `postgres://` URLs. Where the URL is silent, the environment counts: the driver reads
//! `PGSSLMODE` and others.

use std::env;

use lockhouse_core::store::Error;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use super::PostgresServer;
use crate::misconfigured::configuration;
use crate::sql::{
    Host, Hosts, Location, Pem, check_file, check_files, connections, names_a, parsed,
};

/// The parameters that the driver reads.
const DRIVER_PARAMETERS: [&str; 5] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
];

/// The parameters for verification, trusted authorities and files, in all spellings that the driver takes.
const MODE: [&str; 2] = ["sslmode", "ssl-mode"];
const CA: [&str; 3] = ["sslrootcert", "ssl-root-cert", "ssl-ca"];
const CERTIFICATE: [&str; 2] = ["sslcert", "ssl-cert"];
const KEY: [&str; 2] = ["sslkey", "ssl-key"];

/// The parameters of a URL, for messages.
const TAKES: &str = "connections, sslmode, sslrootcert, sslcert, sslkey and application_name";

/// The default name of the sessions on the server.
const APPLICATION_NAME: &str = "lockhouse";

/// Reads `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?…`.
pub(super) fn parse(text: &str) -> Result<Location<PostgresServer>, Error> {
    let urls = each_host(text);
    let urls: Vec<_> = urls
        .iter()
        .map(|url| parsed(url))
        .collect::<Result<_, _>>()?;
    // All have the same parameters.
    let connections = connections(&urls[0], &DRIVER_PARAMETERS, TAKES)?;
    let hosts = urls.iter().map(host).collect::<Result<_, _>>()?;
    Ok(Location {
        hosts: Hosts::new(hosts),
        connections,
    })
}

/// `url` once for each of its hosts, which stand between commas.
fn each_host(url: &str) -> Vec<String> {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[begin..].find(['/', '?', '#']);
    let end = end.map_or(url.len(), |length| begin + length);
    let user = url[begin..end].rfind('@');
    let begin = user.map_or(begin, |at| begin + at + 1);
    let hosts = url[begin..end].split(',');
    let each = hosts.map(|host| format!("{}{host}{}", &url[..begin], &url[end..]));
    each.collect()
}

/// The host of `url`, which has one.
fn host(url: &Url) -> Result<Host<PostgresServer>, Error> {
    let database = url.path().trim_start_matches('/');
    if !url.has_host() || database.is_empty() || database.contains('/') {
        return Err(configuration(
            "the URL names no database; it reads postgres://USER@HOST/DATABASE",
        ));
    }
    let driver = options(url)?;
    let name = driver.get_application_name().unwrap_or(APPLICATION_NAME);
    let name = name.to_owned();
    // The driver looks an IPv6 address up by name while it has its brackets.
    let host = driver.get_host().trim_matches(['[', ']']).to_owned();
    let display = match driver.get_socket() {
        Some(folder) => format!("{}/{database}", folder.display()),
        None => format!("{}:{}/{database}", driver.get_host(), driver.get_port()),
    };
    // PgBouncer refuses a session with a setting that it does not know, such as this one.
    let driver = driver
        .host(&host)
        .application_name(&name)
        .extra_float_digits(None)
        .disable_statement_logging();
    Ok(Host { driver, display })
}

/// The driver's options from `url` and the environment. A CA means that the server's certificate is verified.
pub(super) fn options(url: &Url) -> Result<PgConnectOptions, Error> {
    // The driver's own error repeats values.
    let options = PgConnectOptions::from_url(&without_own(url)).map_err(|_| {
        configuration(
            "the URL's sslmode, user, password, host or database is malformed; sslmode is disable, \
             prefer, require, verify-ca or verify-full",
        )
    })?;
    let (has_mode, has_ca) = (names_a(url, &MODE), names_a(url, &CA));
    let ca_of_the_environment = !has_ca && is_set("PGSSLROOTCERT");
    let options = match options.get_ssl_mode() {
        // Anybody can get a certificate of a public CA for some host.
        PgSslMode::VerifyCa if !has_ca && !ca_of_the_environment => {
            return Err(configuration(
                "sslmode=verify-ca needs sslrootcert; name the CA that signed the server's \
                 certificate, or write sslmode=verify-full",
            ));
        }
        PgSslMode::VerifyCa | PgSslMode::VerifyFull => options,
        _ if has_mode && has_ca => {
            return Err(configuration(
                "the URL has sslrootcert and an sslmode that verifies nothing; \
                 write sslmode=verify-full or verify-ca, or leave sslrootcert out",
            ));
        }
        _ if has_mode => options,
        _ if ca_of_the_environment && is_set("PGSSLMODE") => {
            return Err(configuration(
                "PGSSLROOTCERT is set, and PGSSLMODE verifies nothing; set it to verify-full or \
                 verify-ca, or write the sslmode that you want into the URL",
            ));
        }
        _ if has_ca || ca_of_the_environment => options.ssl_mode(PgSslMode::VerifyFull),
        _ => options,
    };
    check_all_files(url, &options)?;
    Ok(options)
}

/// `url` without the parameters that the driver does not know. It would log a warning of each.
fn without_own(url: &Url) -> Url {
    let mut of_the_driver = url.clone();
    let known = url.query_pairs();
    let known = known.filter(|(key, _)| key != "connections");
    of_the_driver.query_pairs_mut().clear().extend_pairs(known);
    of_the_driver
}

/// Whether the driver takes something from this variable of the environment.
fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok()
}

/// Checks the files of the URL and, if they are read, those that the driver takes from the environment.
fn check_all_files(url: &Url, options: &PgConnectOptions) -> Result<(), Error> {
    let of_the_environment = ["PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY"];
    let files: [(&[&str], Pem); 3] = [
        (&CA, Pem::Authorities),
        (&CERTIFICATE, Pem::Certificate),
        (&KEY, Pem::Key),
    ];
    for (parameters, pem) in files {
        check_files(url, parameters, pem)?;
    }
    if matches!(options.get_ssl_mode(), PgSslMode::Disable) {
        return Ok(());
    }
    for (variable, (parameters, pem)) in of_the_environment.into_iter().zip(files) {
        let Ok(file) = env::var(variable) else {
            continue;
        };
        // A value may be a certificate itself.
        if names_a(url, parameters) || file.contains("-----BEGIN") {
            continue;
        }
        check_file(variable, &file, pem)?;
    }
    Ok(())
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
        let url = "postgresql://app:secret@db:5433/permits?connections=4&sslmode=disable";
        let location = parse(url).unwrap();
        assert_eq!(location.hosts.current().display, "db:5433/permits");
        assert_eq!(location.connections, 4);
    }

    #[test]
    fn a_url_may_name_several_hosts() {
        let url = "postgres://app:a,b@db1,[::1]:5433,db3/permits?connections=4&sslmode=disable";
        let location = parse(url).unwrap();
        let display = "db1:5432,[::1]:5433,db3:5432/permits";
        assert_eq!(location.hosts.display(), display);
        assert_eq!(location.connections, 4);
        assert_eq!(location.hosts.current().driver.get_username(), "app");
        assert!(refused("postgres://app@db1,/permits").contains("malformed"));
        let misplaced = refused("postgres://app:1,2/secret@db1,db2/permits");
        assert!(
            misplaced.contains("has an @ behind its host"),
            "{misplaced}"
        );
    }

    #[test]
    fn an_ipv6_address_has_no_brackets_for_the_driver() {
        let location = parse("postgres://app@[::1]/permits").unwrap();
        let host = location.hosts.current();
        assert_eq!(host.driver.get_host(), "::1");
        assert_eq!(host.display, "[::1]:5432/permits");
    }

    #[test]
    fn a_path_as_the_host_is_a_sockets_folder() {
        let location = parse("postgres://app@%2Frun%2Fpg/permits").unwrap();
        let host = location.hosts.current();
        assert_eq!(host.display, "/run/pg/permits");
        let folder = host.driver.get_socket().unwrap();
        assert_eq!(folder.to_str(), Some("/run/pg"));
    }

    #[test]
    fn a_url_without_a_database_is_refused() {
        for url in [
            "postgres://app@db",
            "postgres://app@db/",
            "postgres://app@db/a/b",
            "postgres:permits",
            "postgres:///permits",
        ] {
            assert!(refused(url).contains("names no database"), "{url}");
        }
    }

    #[test]
    fn bad_parameters_are_refused_without_showing_the_password() {
        let refusals = [
            refused("postgres://app:secret@db/permits?options=x"),
            refused("postgres://app:secret@db/permits?connections=0"),
            refused("postgres://app:secret@db/permits?sslmode=perhaps"),
            refused("postgres://app:secret@db/permits?sslmode=verify-ca"),
            refused("postgres://app:secret@db:port/permits"),
        ];
        for refusal in refusals {
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn a_mode_that_ignores_the_host_needs_a_ca() {
        let url = "postgres://app@db/permits?sslmode=verify-ca";
        assert!(refused(url).contains("needs sslrootcert"));
        let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/other_ca.pem");
        parse(&format!("{url}&sslrootcert={ca}")).unwrap();
        parse("postgres://app@db/permits?sslmode=verify-full").unwrap();
    }
}
