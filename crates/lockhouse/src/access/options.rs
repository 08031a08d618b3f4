//! Options of a connection to a server: the token, and the certificates that are trusted.

use std::env::{self, VarError};
use std::path::PathBuf;

use lockhouse_core::Invalid;

use crate::{Error, Secret};

/// The token that a client sends to a server, and the certificates that it trusts. Connections to
/// databases ignore them: a database's URL has all that is needed.
///
/// ```no_run
/// # async fn connect() -> Result<(), lockhouse::Error> {
/// use lockhouse::{ConnectOptions, Lockhouse};
///
/// let token = std::fs::read_to_string("/run/secrets/lockhouse").expect("the token's file");
/// let options = ConnectOptions::new().token(token.trim().parse()?);
/// let lockhouse = Lockhouse::connect_with("https://lockhouse.internal", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub(crate) token: Option<Secret>,
    pub(crate) ca_file: Option<PathBuf>,
}

impl ConnectOptions {
    /// No token, and the machine's trusted certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token of `LOCKHOUSE_TOKEN` and the file of `LOCKHOUSE_CA_FILE`. An empty variable counts
    /// as unset.
    ///
    /// ```no_run
    /// # async fn connect() -> Result<(), lockhouse::Error> {
    /// use lockhouse::{ConnectOptions, Lockhouse};
    ///
    /// let options = ConnectOptions::from_env()?.ca_file("/etc/lockhouse/ca.pem");
    /// let lockhouse = Lockhouse::connect_with("https://lockhouse.internal", options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the token is malformed.
    pub fn from_env() -> Result<Self, Error> {
        let mut options = Self::new();
        if let Some(token) = variable("LOCKHOUSE_TOKEN")? {
            let token = token.trim().parse::<Secret>();
            let token = token.map_err(|invalid| invalid.on("LOCKHOUSE_TOKEN"))?;
            options.token = Some(token);
        }
        options.ca_file = variable("LOCKHOUSE_CA_FILE")?.map(PathBuf::from);
        Ok(options)
    }

    /// Sends `token` to the server with every call.
    #[must_use]
    pub fn token(mut self, token: Secret) -> Self {
        self.token = Some(token);
        self
    }

    /// Trusts the certificates in this PEM file, and no others.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// The token, if there is one.
    pub fn secret(&self) -> Option<&Secret> {
        self.token.as_ref()
    }
}

fn variable(name: &'static str) -> Result<Option<String>, Error> {
    match env::var(name) {
        Ok(text) if !text.trim().is_empty() => Ok(Some(text)),
        Ok(_) | Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Invalid::new(name, "is not UTF-8; set it to a text in UTF-8").into())
        }
    }
}
