//! Keeps the user and the password of a URL out of messages.
//!
//! A password with an unencoded `/`, `?`, `#` or `@` ends up in another part of the URL for a
//! parser: `mysql://app:12/s3cr3t@db/x` has the host `app`. So a URL with an `@` after its host is
//! refused, and messages show only the part after its last `@`.

use lockhouse_core::store::{Error, Kind};

/// The schemes that messages may show. Any other text before a colon may be a user, as in
/// `app:s3cr3t@db`.
const SCHEMES: [&str; 10] = [
    "memory",
    "sqlite",
    "mysql",
    "mariadb",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "http",
    "https",
];

/// `url` without user, password, query and fragment, for messages and logs.
///
/// ```
/// use lockhouse_stores::without_credentials;
///
/// assert_eq!(without_credentials("mysql://app:s3cr3t@db/permits?ssl-ca=a"), "mysql://db/permits");
/// assert_eq!(without_credentials("sqlite:/var/a@b.db"), "sqlite:/var/a@b.db");
/// ```
pub fn without_credentials(url: &str) -> String {
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) if is_known(scheme) => (scheme, rest),
        _ => ("", url),
    };
    let is_file = scheme == "sqlite" && (!rest.starts_with("//") || rest.starts_with("///"));
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, rest)) if !is_file => rest,
        _ => rest,
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let colon = if scheme.is_empty() { "" } else { ":" };
    format!("{scheme}{colon}{slashes}{rest}")
}

/// Refuses a URL with an `@` after its host: a parser may have taken a part of the password for the
/// host, the path or the query.
///
/// # Errors
/// [`Kind::Configuration`], which shows nothing of the URL.
pub fn refuse_misplaced(url: &str) -> Result<(), Error> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let behind_host = rest.split_once(['/', '?', '#', '\\']);
    if !behind_host.is_some_and(|(_, behind)| behind.contains('@')) {
        return Ok(());
    }
    let problem = "the URL has an @ behind its host; in a user or a password write %2F for /, \
        %3F for ?, %23 for # and %40 for @; elsewhere write %40 for @";
    Err(Error::new(Kind::Configuration, problem))
}

fn is_known(scheme: &str) -> bool {
    SCHEMES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_from_after_its_last_at_sign() {
        for (url, shown) in [
            ("mysql://app:s3cr3t@db:3306/x", "mysql://db:3306/x"),
            ("mysql://app:12/s3cr3t@db/x", "mysql://db/x"),
            ("mysql://app:a@s3cr3t@db/x", "mysql://db/x"),
            ("mysqll://app:s3cr3t@db/x", "db/x"),
            ("app:s3cr3t@db/x", "db/x"),
            ("https://db/a?token=s3cr3t", "https://db/a"),
            ("sqlite://app:s3cr3t@db/x", "sqlite://db/x"),
            ("sqlite:///var/a@b.db", "sqlite:///var/a@b.db"),
            ("sqlite:a b.db", "sqlite:a b.db"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_credentials(url), shown, "{url}");
        }
    }
}
