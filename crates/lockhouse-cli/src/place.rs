//! Where the permits live.

use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lockhouse::store::Kind;
use lockhouse::{Error, Invalid, Lockhouse};

use crate::failure::Failure;

/// The URL of a store or a server.
#[derive(Clone, Debug)]
pub(crate) struct Place(String);

impl Place {
    /// The place that the user names, else a file in the user's state folder.
    pub(crate) fn new(url: Option<String>) -> Result<Self, Failure> {
        // As with most variables, an empty LOCKHOUSE_URL is as good as none.
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            return Ok(Self(url));
        }
        let file = state_folder(|name| env::var_os(name).map(PathBuf::from))
            .ok_or_else(|| invalid("is missing, and there is no home folder to keep permits in"))?
            .join("lockhouse/lockhouse.db");
        let file = file
            .to_str()
            .ok_or_else(|| invalid("is missing, and the path of the home folder is not UTF-8"))?;
        Ok(Self(format!("sqlite:{file}")))
    }

    pub(crate) async fn connect(&self) -> Result<Lockhouse, Failure> {
        Ok(Lockhouse::connect(&self.0).await?)
    }

    /// The same, and tries for as long as `wait` while the database has no connection left.
    pub(crate) async fn connect_within(&self, wait: Duration) -> Result<Lockhouse, Failure> {
        let begun = Instant::now();
        loop {
            match self.connect().await {
                Err(Failure::Lockhouse(Error::Store(error)))
                    if error.kind() == Kind::Crowded && begun.elapsed() < wait => {}
                connected => return connected,
            }
        }
    }

    /// The URL, password and all.
    pub(crate) fn url(&self) -> &str {
        &self.0
    }

    /// Whether it is a server rather than a store.
    pub(crate) fn is_server(&self) -> bool {
        let scheme = self.0.split(':').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    }

    /// The URL without user and password, to be shown.
    pub(crate) fn public(&self) -> String {
        lockhouse::without_credentials(&self.0)
    }
}

pub(crate) fn invalid(problem: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    lockhouse::Error::from(Invalid::new("--url", problem)).into()
}

/// As the XDG Base Directory Specification has it: a relative path counts as none.
fn state_folder(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| var(name).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_is_that_of_xdg_else_one_in_the_home_folder() {
        let folder = |xdg: Option<&str>, home: Option<&str>| {
            state_folder(|name| match name {
                "XDG_STATE_HOME" => xdg.map(PathBuf::from),
                "HOME" => home.map(PathBuf::from),
                other => panic!("{other} is asked for"),
            })
        };
        assert_eq!(folder(Some("/s"), Some("/h")), Some("/s".into()));
        assert_eq!(folder(None, Some("/h")), Some("/h/.local/state".into()));
        assert_eq!(
            folder(Some("s"), Some("/h")),
            Some("/h/.local/state".into())
        );
        assert_eq!(folder(None, Some("")), None);
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let public = |url: &str| Place(url.to_owned()).public();
        assert_eq!(
            public("mysql://app:s3cret@db:3306/lockhouse"),
            "mysql://db:3306/lockhouse"
        );
        assert_eq!(public("mysql://app@db/lockhouse"), "mysql://db/lockhouse");
        assert_eq!(
            public("postgres://app:s3cret@db/lockhouse?sslmode=require"),
            "postgres://db/lockhouse"
        );
        assert_eq!(public("sqlite:/var/a b.db"), "sqlite:/var/a b.db");
        assert_eq!(public("memory:"), "memory:");
    }

    #[test]
    fn a_server_is_known_by_its_scheme() {
        let is_server = |url: &str| Place(url.to_owned()).is_server();
        assert!(is_server("http://127.0.0.1:7117"));
        assert!(is_server("HTTPS://lockhouse"));
        assert!(!is_server("sqlite:http"));
    }
}
