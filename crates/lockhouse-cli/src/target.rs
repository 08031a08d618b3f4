//! Where the permits are: a store or a server.

use std::env::{self, VarError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse::store::FullStore;
use lockhouse::{ConnectOptions, Error, Invalid, Lockhouse};

use crate::complaint::complain;
use crate::failure::Failure;
use crate::format::Format;

/// A store in the memory of this process.
const MEMORY: &str = "memory:";

/// The URL of a store or a server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    url: String,
    /// The token and the authorities for a server.
    options: ConnectOptions,
}

impl Target {
    /// The target that `url` or the `variable` names, or else a file in the user's state folder.
    pub(crate) fn new(
        url: Option<String>,
        variable: Result<String, VarError>,
    ) -> Result<Self, Failure> {
        if url.as_ref().is_some_and(String::is_empty) {
            return Err(invalid(
                "is empty; leave it out to use the file in your state folder",
            ));
        }
        if let Err(VarError::NotUnicode(_)) = variable {
            return Err(invalid("of LOCKHOUSE_URL is not UTF-8; set it to a URL"));
        }
        // An empty variable counts as unset, as is usual.
        let variable = variable.ok().filter(|url| !url.is_empty());
        if let Some(url) = url.or(variable) {
            return Ok(Self::at(url));
        }
        let file = state_folder(|name| env::var_os(name).map(PathBuf::from))
            .ok_or_else(|| {
                invalid("is missing, and there is no home folder to keep permits in; give a URL")
            })?
            .join("lockhouse/lockhouse.db");
        let file = file.to_str().ok_or_else(|| {
            invalid("is missing, and the path of the home folder is not UTF-8; give a URL")
        })?;
        Ok(Self::at(format!("sqlite:{file}")))
    }

    fn at(url: String) -> Self {
        Self {
            url,
            options: ConnectOptions::new(),
        }
    }

    /// The same target, with the `options` for a server.
    pub(crate) fn with(self, options: ConnectOptions) -> Self {
        Self { options, ..self }
    }

    /// The variables by which another command finds the target, and the token for it.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let token = self.options.secret();
        let token = token.map(|token| ("LOCKHOUSE_TOKEN", token.reveal()));
        [("LOCKHOUSE_URL", self.url.as_str())]
            .into_iter()
            .chain(token)
    }

    /// Connects for a short command. Refuses a store in memory, which would end with the command.
    pub(crate) async fn connect(&self) -> Result<Lockhouse, Failure> {
        if self.url == MEMORY {
            return Err(invalid(
                "is memory:, which ends with this command; use sqlite:PATH, or lockhouse serve \
                 --url memory: and the server's http:// URL",
            ));
        }
        let options = self.options.clone();
        Ok(Lockhouse::connect_with(&self.url, options).await?)
    }

    /// Connects for a command that only reads. It does not create a missing SQLite file, but reads
    /// it as an empty store and warns people.
    pub(crate) async fn connect_to_read(&self, output: Format) -> Result<Lockhouse, Failure> {
        let Some(file) = self.file().filter(|file| !file.exists()) else {
            return self.connect().await;
        };
        // Refuse a malformed URL, whether such a file exists or not.
        self.open()?;
        if output == Format::Table {
            complain(&format!(
                "lockhouse: {} does not exist yet; lockhouse create NAME CAPACITY makes it",
                file.display()
            ));
        }
        Ok(Lockhouse::connect(MEMORY).await?)
    }

    /// Opens the store, without migrating it.
    pub(crate) fn open(&self) -> Result<Arc<dyn FullStore>, Failure> {
        Ok(lockhouse_stores::open(&self.url).map_err(Error::from)?)
    }

    /// The SQLite file, if the URL names one. A URL with a host may have credentials, and names none.
    fn file(&self) -> Option<&Path> {
        let path = self.url.strip_prefix("sqlite:")?;
        let path = match path.strip_prefix("//") {
            Some(path) if path.contains('@') && !path.starts_with('/') => return None,
            Some(path) => path,
            None => path,
        };
        (!path.is_empty() && !path.contains('?')).then(|| Path::new(path))
    }

    /// [`connect`](Self::connect), with retries for up to `wait` while other processes keep the
    /// database busy.
    pub(crate) async fn connect_within(&self, wait: Duration) -> Result<Lockhouse, Failure> {
        let begun = Instant::now();
        loop {
            match self.connect().await {
                Err(Failure::Lockhouse(Error::Store(error)))
                    if error.is_busy() && begun.elapsed() < wait => {}
                connected => return connected,
            }
        }
    }

    /// Whether it is a server rather than a store.
    pub(crate) fn is_server(&self) -> bool {
        let scheme = self.url.split(':').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    }

    /// The URL without user and password, to be shown.
    pub(crate) fn public(&self) -> String {
        lockhouse::without_credentials(&self.url)
    }
}

pub(crate) fn invalid(problem: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    lockhouse::Error::from(Invalid::new("--url", problem)).into()
}

/// By the XDG Base Directory Specification, a relative path counts as none.
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
        let public = |url: &str| Target::at(url.to_owned()).public();
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
        let is_server = |url: &str| Target::at(url.to_owned()).is_server();
        assert!(is_server("http://127.0.0.1:7117"));
        assert!(is_server("HTTPS://lockhouse"));
        assert!(!is_server("sqlite:http"));
    }
}
