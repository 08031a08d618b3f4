//! Parses `postgres://` URLs. Where the URL is silent, the environment counts: the driver reads
//! `PGSSLMODE` and others.

use std::env;
use std::fs::File;

use lockhouse_core::store::Error;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use super::PostgresServer;
use crate::sql::{Location, check_files, configuration, connections, names_a};

/// The parameters that the driver reads.
const DRIVER_PARAMETERS: [&str; 5] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
];

/// The parameters that name files.
const FILES: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];

/// The parameters of a URL, for messages.
const TAKES: &str = "connections, sslmode, sslrootcert, sslcert, sslkey and application_name";

/// The default name of the sessions on the server.
const APPLICATION_NAME: &str = "lockhouse";

/// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`.
pub(super) fn parse(text: &str) -> Result<Location<PostgresServer>, Error> {
    let url =
        Url::parse(text).map_err(|error| configuration("the URL is malformed").caused_by(error))?;
    let connections = connections(&url, &DRIVER_PARAMETERS, TAKES)?;
    let database = url.path().trim_start_matches('/');
    if !url.has_host() || database.is_empty() || database.contains('/') {
        return Err(configuration(
            "the URL names no database; it reads postgres://USER@HOST/DATABASE",
        ));
    }
    check_files(&url, &FILES)?;
    // The driver's own error would repeat values, such as a password.
    let mut driver = PgConnectOptions::from_url(&url).map_err(|_| {
        configuration(
            "the URL makes no sense; sslmode is disable, prefer, require, verify-ca or verify-full",
        )
    })?;
    let has_mode = names_a(&url, &["sslmode"]);
    if names_a(&url, &["sslrootcert"]) {
        if !has_mode {
            driver = driver.ssl_mode(PgSslMode::VerifyFull);
        } else if !verifies(driver.get_ssl_mode()) {
            return Err(configuration(
                "the URL has sslrootcert and an sslmode that verifies nothing; \
                 write sslmode=verify-full or verify-ca, or leave sslrootcert out",
            ));
        }
    } else if !has_mode && is_set("PGSSLROOTCERT") {
        if !is_set("PGSSLMODE") {
            driver = driver.ssl_mode(PgSslMode::VerifyFull);
        } else if !verifies(driver.get_ssl_mode()) {
            return Err(configuration(
                "PGSSLROOTCERT is set, and PGSSLMODE verifies nothing; set it to verify-full or \
                 verify-ca, or write the sslmode that you want into the URL",
            ));
        }
    }
    if !matches!(driver.get_ssl_mode(), PgSslMode::Disable) {
        check_files_of_the_environment(&url)?;
    }
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
    Ok(Location {
        driver,
        display,
        connections,
    })
}

/// Whether the driver reads this environment variable.
fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok()
}

/// Checks the files that the driver takes from the environment.
fn check_files_of_the_environment(url: &Url) -> Result<(), Error> {
    let variables = ["PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY"];
    for (parameter, variable) in FILES.into_iter().zip(variables) {
        let Ok(file) = env::var(variable) else {
            continue;
        };
        // A value may be a certificate itself.
        if names_a(url, &[parameter]) || file.contains("-----BEGIN") {
            continue;
        }
        File::open(&file).map_err(|error| {
            configuration(format!("the file of {variable} can't be read")).caused_by(error)
        })?;
    }
    Ok(())
}

fn verifies(mode: PgSslMode) -> bool {
    matches!(mode, PgSslMode::VerifyCa | PgSslMode::VerifyFull)
}

#[cfg(test)]
mod tests {
    use lockhouse_core::store::Kind;

    use super::*;

    fn refused(url: &str) -> String {
        let error = parse(url).map(|location| location.display).unwrap_err();
        assert_eq!(error.kind(), Kind::Configuration);
        error.to_string()
    }

    #[test]
    fn a_url_says_where_and_how() {
        let url = "postgresql://app:secret@db:5433/permits?connections=4&sslmode=disable";
        let location = parse(url).unwrap();
        assert_eq!(location.display, "db:5433/permits");
        assert_eq!(location.connections, 4);
    }

    #[test]
    fn an_ipv6_address_has_no_brackets_for_the_driver() {
        let location = parse("postgres://app@[::1]/permits").unwrap();
        assert_eq!(location.driver.get_host(), "::1");
        assert_eq!(location.display, "[::1]:5432/permits");
    }

    #[test]
    fn a_path_as_the_host_is_a_sockets_folder() {
        let location = parse("postgres://app@%2Frun%2Fpg/permits").unwrap();
        assert_eq!(location.display, "/run/pg/permits");
        let folder = location.driver.get_socket().unwrap();
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
    fn what_is_unknown_or_senseless_is_refused_without_telling_the_password() {
        let refusals = [
            refused("postgres://app:secret@db/permits?options=x"),
            refused("postgres://app:secret@db/permits?connections=0"),
            refused("postgres://app:secret@db/permits?sslmode=perhaps"),
            refused("postgres://app:secret@db:port/permits"),
        ];
        for refusal in refusals {
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }
}
